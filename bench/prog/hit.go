// SPDX-License-Identifier: MIT
// The loop of hit.c in Go, one thread: "measure work_push THREADS MILLISECONDS [PAUSE]" -> median and best ns per call.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"
)

const calls = 2000

//go:noinline
func work_push(n, m uint64) uint64 {
	return n*3 + m
}

func chunk() float64 {
	start, sum := time.Now(), uint64(0)
	for i := uint64(0); i < calls; i++ {
		sum += work_push(i, sum)
	}
	runtime.KeepAlive(sum)
	return float64(time.Since(start).Nanoseconds()) / calls
}

func measure(ms, pause int) {
	end, all := time.Now().Add(time.Duration(ms)*time.Millisecond), []float64{}
	for len(all) == 0 || time.Now().Before(end) {
		all = append(all, chunk())
		time.Sleep(time.Duration(pause) * time.Microsecond)
	}
	sort.Float64s(all)
	fmt.Printf("%.4f %.4f\n", all[len(all)/2], all[0])
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var function string
		var threads, ms, pause int
		if n, _ := fmt.Sscanf(in.Text(), "measure %s %d %d %d", &function, &threads, &ms, &pause); n < 3 || function != "work_push" {
			fmt.Println("what?")
			continue
		}
		measure(ms, pause)
	}
}
