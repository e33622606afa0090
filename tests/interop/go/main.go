// SPDX-License-Identifier: Apache-2.0
//
// A stock go-zookeeper client that does what its standard input says; the same commands as CuratorPeer.java, for KIND `mutex`.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	output sync.Mutex
	locks  = map[string]*zk.Lock{}
	conn   *zk.Conn
)

func say(text string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(text)
}

func lockAt(path string) *zk.Lock {
	if locks[path] == nil {
		locks[path] = zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	}
	return locks[path]
}

// The library's Lock has no time-out: one that comes too late is given back.
func acquire(path string, ms int) string {
	granted := make(chan error, 1)
	lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	go func() { granted <- lock.Lock() }()
	select {
	case err := <-granted:
		if err != nil {
			return "error " + err.Error()
		}
		locks[path] = lock
		return "ok"
	case <-time.After(time.Duration(ms) * time.Millisecond):
		go func() {
			if <-granted == nil {
				lock.Unlock()
			}
		}()
		return "no"
	}
}

func answer(words []string) string {
	switch words[0] {
	case "acquire":
		ms, _ := strconv.Atoi(words[3])
		return acquire(words[2], ms)
	case "release":
		if err := lockAt(words[2]).Unlock(); err != nil {
			return "error " + err.Error()
		}
		return "ok"
	case "start":
		locks[words[2]] = nil
		lock := lockAt(words[2])
		go func() {
			if lock.Lock() == nil {
				say("granted mutex " + words[2])
			}
		}()
		return "ok"
	}
	return "what?"
}

func main() {
	var err error
	conn, _, err = zk.Connect([]string{os.Args[1]}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		os.Exit(1)
	}
	say("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		say(answer(strings.Fields(input.Text())))
	}
}
