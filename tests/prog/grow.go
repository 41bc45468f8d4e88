// SPDX-License-Identifier: MIT
// Calls whose stack moves while they are open: each goroutine begins with a small one and goes down in large steps. It is
// handed to another thread on the way. Some calls never return: a panic leaves several at once, and whoever recovers from
// it goes on above them; others end their goroutine. What is freed, stack and record, the next goroutine gets.
//
//	grow GOROUTINES		prints how many calls of down() returned and the sum of that; likewise of those by goroutines
//				that had to recover
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const depth = 24

var returned, sum, recoveredCalls, recoveredSum uint64

// A word of its own for each call, so that one can't be taken for another.
//
//go:noinline
func down(id, left uint64, pad *[64]uint64) uint64 {
	var mine [64]uint64
	mine[left%64] = pad[(left+1)%64] + id
	switch {
	case left == 0 && id%5 == 1:
		runtime.Goexit()
	case left == 0 && id%5 == 2:
		panic("as it is meant to be")
	case left%8 == 3:
		runtime.Gosched()
	}
	if left > 0 {
		if id%5 == 2 && left == depth/2 {
			recovers(id, left-1, &mine)
			down(id+1000001, left-1, &mine) // at the same distance from the top, and this one returns
		} else {
			down(id, left-1, &mine)
		}
	}
	value := id*100 + left
	atomic.AddUint64(&returned, 1)
	atomic.AddUint64(&sum, value)
	if id%5 == 2 {
		atomic.AddUint64(&recoveredCalls, 1)
		atomic.AddUint64(&recoveredSum, value)
	}
	return value
}

//go:noinline
func recovers(id, left uint64, pad *[64]uint64) {
	defer func() { recover() }()
	down(id, left, pad)
}

func main() {
	n, _ := strconv.ParseUint(os.Args[1], 10, 64)
	slots := make(chan bool, 4)
	var wg sync.WaitGroup
	for id := uint64(0); id < n; id++ {
		slots <- true
		wg.Add(1)
		go func(id uint64) {
			defer func() { <-slots; wg.Done() }()
			var pad [64]uint64
			if id%5 == 1 {
				down(id+2, depth, &pad) // what never returns then begins on a large stack
			}
			down(id, depth, &pad)
		}(id)
	}
	wg.Wait()
	fmt.Println(returned, sum, recoveredCalls, recoveredSum)
}
