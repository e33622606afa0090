module pawl.example/redsync

go 1.19

require github.com/go-redsync/redsync/v4 v4.8.1

require github.com/gomodule/redigo v1.8.9
