// SPDX-License-Identifier: MIT

// Go's register convention: every field a register of its own, results in the same ones.
// Prints function|parameter|bytes.
package main

import (
	"fmt"
	"unsafe"
)

type point struct{ x, y int32 }
type mixed struct {
	f float64
	n int8
	p *int
}
type large struct{ a [3]int }
type single struct{ a [1]int64 }

func dump(f, which string, p unsafe.Pointer, n uintptr) {
	fmt.Printf("%s|%s|%x\n", f, which, unsafe.Slice((*byte)(p), n))
}

//go:noinline
func numbers(a int8, b uint16, c int32, d int, e float32, f float64, g bool, h uintptr) int {
	n := "main.numbers"
	dump(n, "0", unsafe.Pointer(&a), 1)
	dump(n, "1", unsafe.Pointer(&b), 2)
	dump(n, "2", unsafe.Pointer(&c), 4)
	dump(n, "3", unsafe.Pointer(&d), 8)
	dump(n, "4", unsafe.Pointer(&e), 4)
	dump(n, "5", unsafe.Pointer(&f), 8)
	dump(n, "6", unsafe.Pointer(&g), 1)
	dump(n, "7", unsafe.Pointer(&h), 8)
	r := d + int(c)
	dump(n, "return", unsafe.Pointer(&r), 8)
	return r
}

//go:noinline
func texts(s string, b []byte, i interface{}, q *point, more string) (int, string) {
	n := "main.texts"
	dump(n, "0", unsafe.Pointer(&s), 16)
	dump(n, "1", unsafe.Pointer(&b), 24)
	dump(n, "2", unsafe.Pointer(&i), 16)
	dump(n, "3", unsafe.Pointer(&q), 8)
	dump(n, "4", unsafe.Pointer(&more), 16)
	r := len(s) + len(b)
	dump(n, "return", unsafe.Pointer(&r), 8)
	return r, more
}

//go:noinline
func structs(a point, b mixed, c single) point {
	n := "main.structs"
	dump(n, "0", unsafe.Pointer(&a), 8)
	dump(n, "1", unsafe.Pointer(&b.f), 8)
	dump(n, "2", unsafe.Pointer(&c), 8)
	r := point{a.y, int32(b.n)}
	dump(n, "return", unsafe.Pointer(&r), 8)
	return r
}

//go:noinline
func onStack(a int, b large, c int16, d large) float64 {
	n := "main.onStack"
	dump(n, "0", unsafe.Pointer(&a), 8)
	dump(n, "1", unsafe.Pointer(&b), 24)
	dump(n, "2", unsafe.Pointer(&c), 2)
	dump(n, "3", unsafe.Pointer(&d), 24)
	r := 2.5 + float64(a)
	dump(n, "return", unsafe.Pointer(&r), 8)
	return r
}

//go:noinline
func (p point) method(k int, z complex128) int32 {
	n := "main.point.method"
	dump(n, "0", unsafe.Pointer(&p), 8)
	dump(n, "1", unsafe.Pointer(&k), 8)
	dump(n, "2", unsafe.Pointer(&z), 16)
	r := p.x + int32(k)
	dump(n, "return", unsafe.Pointer(&r), 4)
	return r
}

//go:noinline
func crowded(a, b, c, d, e, f, g, h int, s string, last int) large {
	n := "main.crowded"
	dump(n, "7", unsafe.Pointer(&h), 8)
	dump(n, "8", unsafe.Pointer(&s), 16)
	dump(n, "9", unsafe.Pointer(&last), 8)
	r := large{[3]int{a + b + c, d + e + f, g + h}}
	dump(n, "return", unsafe.Pointer(&r), 24)
	return r
}

func main() {
	x := 5
	numbers(-1, 2, -3, 4, 1.5, 2.5, true, 8)
	texts("hello", []byte{1, 2, 3}, 42, &point{1, 2}, "more")
	structs(point{3, 4}, mixed{1.5, 7, &x}, single{[1]int64{9}})
	onStack(1, large{[3]int{1, 2, 3}}, 4, large{[3]int{5, 6, 7}})
	point{8, 9}.method(3, complex(1, 2))
	crowded(1, 2, 3, 4, 5, 6, 7, 8, "stack", 10)
}
