// SPDX-License-Identifier: MIT
// Go values, the same ones in each run; see typed.c.
package main

import "fmt"

type Inner struct {
	A int16
	B [3]uint32
}

type Item struct {
	Id    int
	Small uint8
	Real  float64
	Name  string
	In    Inner
	Next  *Item
	List  []int32
	Yes   bool
}

var Counter int64 = 5
var Title = "a title"

//go:noinline
func step(n int, small int8, s string, it *Item, d float64) int {
	Counter += int64(n)
	return n + int(small) + len(s) + it.Id + int(d)
}

func main() {
	sum := 0
	for n := 0; n < 3; n++ {
		last := &Item{Id: 50 + n, Name: "last"}
		it := &Item{Id: n, Small: uint8(200 + n), Real: float64(n) / 3, Name: fmt.Sprintf("name %d", n),
			In: Inner{A: int16(-3 - n), B: [3]uint32{1, 2, uint32(n)}}, Next: last, List: []int32{4, 5}, Yes: n == 1}
		sum += step(n, int8(-n), it.Name, it, float64(n)+0.5) // line: sum
	}
	if sum == 12345 {
		fmt.Println(Title)
	}
}
