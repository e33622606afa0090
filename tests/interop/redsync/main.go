// SPDX-License-Identifier: Apache-2.0
//
// redsync and pawl over the same servers exclude each other, both ways.
package main

import (
	"bufio"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	redigolib "github.com/gomodule/redigo/redis"
)

func pools() []redis.Pool {
	var all []redis.Pool
	for _, port := range strings.Split(os.Getenv("PORTS"), ",") {
		address := "127.0.0.1:" + port
		all = append(all, redigo.NewPool(&redigolib.Pool{
			Dial: func() (redigolib.Conn, error) { return redigolib.Dial("tcp", address) },
		}))
	}
	return all
}

func pawl(arguments ...string) *exec.Cmd {
	return exec.Command(os.Getenv("PAWL"), append([]string{"run", "-u", os.Getenv("PAWL_URL")}, arguments...)...)
}

func status(command *exec.Cmd) int {
	command.Run()
	return command.ProcessState.ExitCode()
}

func must(ok bool, what string) {
	if !ok {
		log.Fatal(what)
	}
}

func main() {
	sync := redsync.New(pools()...)
	// As impatient as it gets, and patient.
	once := func() *redsync.Mutex {
		return sync.NewMutex("job", redsync.WithExpiry(20*time.Second), redsync.WithTries(1))
	}
	patient := func() *redsync.Mutex {
		return sync.NewMutex("job", redsync.WithExpiry(20*time.Second), redsync.WithTries(500), redsync.WithRetryDelay(50*time.Millisecond))
	}

	// redsync holds: pawl finds it held, waits, and gets in when it is released.
	mutex := patient()
	must(mutex.Lock() == nil, "redsync does not get a free lock")
	must(status(pawl("-n", "job", "--", "true")) == 75, "pawl got what redsync holds")
	waiting := pawl("job", "--", "true")
	must(waiting.Start() == nil, "pawl does not start")
	extended, err := mutex.Extend()
	must(extended && err == nil, "redsync could not extend")
	released, err := mutex.Unlock()
	must(released && err == nil, "redsync's hold was not its own any more")
	must(waiting.Wait() == nil, "pawl did not get what redsync released")

	// pawl holds: redsync finds it held, and gets in afterwards.
	holder := pawl("job", "--", "sh", "-c", "echo held; sleep 1")
	output, err := holder.StdoutPipe()
	must(err == nil && holder.Start() == nil, "pawl does not start")
	_, err = bufio.NewReader(output).ReadString('\n')
	must(err == nil, "pawl's command does not speak")
	must(once().Lock() != nil, "redsync got what pawl holds")
	mutex = patient()
	must(mutex.Lock() == nil, "redsync did not get what pawl released")
	holder.Wait()
	released, err = mutex.Unlock()
	must(released && err == nil, "redsync's hold was not its own any more")
}
