// SPDX-License-Identifier: MIT
// A recursion that outgrows its stack again and again: where the stack check of a function fails, the function begins anew on a
// larger stack, and an entry in front of the check would be counted twice.
//
//	deep GOROUTINES		prints how many calls of descend() there were
package main

import (
	"fmt"
	"os"
	"strconv"
)

const depth = 200

//go:noinline
func descend(n int) int {
	var room [64]int
	room[n%64] = n
	if n == 0 {
		return room[0]
	}
	return descend(n-1) + room[n%64]
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	sum := 0
	for i := 0; i < n; i++ {
		c := make(chan int)
		go func() { c <- descend(depth) }()
		sum += <-c
	}
	fmt.Println(n*(depth+1), sum)
}
