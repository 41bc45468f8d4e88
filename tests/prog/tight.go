// SPDX-License-Identifier: MIT
// Functions without a stack check, nested as deeply as the linker permits, called from every depth of a goroutine's stack:
// at some of them hardly anything is left of it. Others wait meanwhile, whose stacks lie right below. And one that checks,
// called where too little is left: it calls the run time first.
//
//	tight GOROUTINES DEPTH
package main

import (
	"fmt"
	"os"
	"strconv"
)

//go:nosplit
//go:noinline
func inner(n int, p *[26]int, q *[40]int) int {
	return n + p[n%26] + q[n%40]
}

//go:nosplit
//go:noinline
func middle(n int, q *[40]int) int {
	var p [26]int
	p[n%26] = 1
	return inner(n, &p, q)
}

//go:nosplit
//go:noinline
func outer(n int) int {
	var q [40]int
	q[n%40] = 1
	return middle(n, &q)
}

//go:noinline
func split(n int, q *[60]int) int {
	if n < 0 {
		return split(n+1, q) + 1
	}
	return q[n%60]
}

//go:nosplit
//go:noinline
func near(n int) int {
	var q [60]int
	q[n%60] = n
	return split(n, &q)
}

//go:noinline
func descend(n int) int {
	if n == 0 {
		return 0
	}
	if n%17 == 3 {
		return near(n) + outer(n) + descend(n-1)
	}
	return outer(n) + descend(n-1)
}

func main() {
	goroutines, _ := strconv.Atoi(os.Args[1])
	depth, _ := strconv.Atoi(os.Args[2])
	begin, sums := make(chan bool), make(chan int)
	for i := 0; i < goroutines; i++ {
		go func(i int) {
			<-begin
			sums <- descend(depth + i%8)
		}(i)
	}
	sum := 0
	for i := 0; i < goroutines; i++ {
		begin <- true
		sum += <-sums
	}
	fmt.Println(sum)
}
