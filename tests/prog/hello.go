// SPDX-License-Identifier: MIT

// N calls of work() on T goroutines, while others make garbage and grow their stacks, so that the
// runtime moves stacks and preempts goroutines at any instruction. `hello N T` runs once and prints
// N; `hello serve T` serves "run N" and "stop" as the C targets do.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

var quit int32
var wrong int64

//go:noinline
func work(x uint64) uint64 {
	return x*3 + 1
}

//go:noinline
func deep(n int, pad [16]int) int {
	if n == 0 {
		return pad[3]
	}
	pad[3] += n
	return deep(n-1, pad) + pad[5]
}

//go:noinline
func garbage(n int) int {
	m := map[string][]byte{}
	for i := 0; i < n; i++ {
		m[strconv.Itoa(i)] = make([]byte, 100+i)
	}
	return len(m)
}

// A loop without calls: only asynchronous preemption gets a goroutine out of it.
//
//go:noinline
func tight(n uint64) uint64 {
	s := uint64(0)
	for i := uint64(0); i < n; i++ {
		s += i ^ (s >> 3)
	}
	return s
}

func background(done *sync.WaitGroup) {
	defer done.Done()
	want := tight(1000000)
	for atomic.LoadInt32(&quit) == 0 {
		var pad [16]int
		if deep(2000, pad) != 2000*2001/2 || garbage(200) != 200 || tight(1000000) != want {
			atomic.AddInt64(&wrong, 1)
		}
		runtime.Gosched()
	}
}

func run(n uint64, t uint64) {
	var wg sync.WaitGroup
	for k := uint64(0); k < t; k++ {
		share := n / t
		if k < n%t {
			share++
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			sum, want := uint64(0), uint64(0)
			for i := uint64(0); i < share; i++ {
				sum += work(i)
				want += i*3 + 1
			}
			if sum != want {
				atomic.AddInt64(&wrong, 1)
			}
		}()
	}
	wg.Wait()
}

func serve(t uint64) {
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && in.Text() != "stop" {
		n, _ := strconv.ParseUint(strings.TrimPrefix(in.Text(), "run "), 10, 64)
		run(n, t)
		fmt.Println("done", n)
	}
}

func main() {
	if len(os.Args) < 3 {
		os.Exit(2)
	}
	t, _ := strconv.ParseUint(os.Args[2], 10, 64)
	var wg sync.WaitGroup
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go background(&wg)
	}
	if os.Args[1] == "serve" {
		serve(t)
	} else {
		n, _ := strconv.ParseUint(os.Args[1], 10, 64)
		run(n, t)
		fmt.Println(n)
	}
	atomic.StoreInt32(&quit, 1)
	wg.Wait()
	if wrong != 0 {
		fmt.Println("bad: wrong results:", wrong)
		os.Exit(3)
	}
	if os.Args[1] == "serve" {
		fmt.Println("ok")
	}
}
