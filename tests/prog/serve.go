// SPDX-License-Identifier: MIT
// A server on net/http whose answers are always the same: hashes, JSON, panics that are recovered,
// nil pointers that become panics, sorting on many goroutines, and stacks that grow and move.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sort"
	"strconv"
	"sync"
)

type node struct {
	value int
	next  *node
}

func number(r *http.Request) int {
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	return n
}

func hash(w http.ResponseWriter, r *http.Request) {
	sum := []byte("start")
	for i := 0; i < number(r)*100; i++ {
		s := sha256.Sum256(sum)
		sum = s[:]
	}
	fmt.Fprintf(w, "%x\n", sum)
}

func asJSON(w http.ResponseWriter, r *http.Request) {
	m := map[string][]float64{}
	for i := 0; i < 500; i++ {
		k := "k" + strconv.Itoa(i%37)
		m[k] = append(m[k], float64(i)*1.5)
	}
	json.NewEncoder(w).Encode(m)
}

func recovered(w http.ResponseWriter, what func()) {
	defer func() { fmt.Fprintln(w, "recovered:", recover()) }()
	what()
}

//go:noinline
func follow(n *node) int { return n.next.value }

// Has a frame of its own when it faults.
//
//go:noinline
func framed(n *node) int { return deep(3) + n.next.value*deep(2) }

func sorted(w http.ResponseWriter, r *http.Request) {
	var wait sync.WaitGroup
	parts := make([][]int, 8)
	for i := range parts {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			for k := 0; k < number(r); k++ {
				parts[i] = append(parts[i], k*7919%10007)
			}
			sort.Ints(parts[i])
		}(i)
	}
	wait.Wait()
	fmt.Fprintln(w, parts[3][:10], parts[7][len(parts[7])-5:])
}

//go:noinline
func deep(n int) int {
	var room [64]int
	room[n%64] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + room[n%64]
}

func main() {
	log.SetOutput(io.Discard)
	http.HandleFunc("/hash", hash)
	http.HandleFunc("/json", asJSON)
	http.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) {
		recovered(w, func() { panic("on purpose") })
	})
	http.HandleFunc("/nil", func(w http.ResponseWriter, r *http.Request) {
		recovered(w, func() { follow(&node{}) })
	})
	http.HandleFunc("/framed", func(w http.ResponseWriter, r *http.Request) {
		recovered(w, func() { framed(&node{}) })
	})
	http.HandleFunc("/sort", sorted)
	http.HandleFunc("/deep", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan int)
		go func() { done <- deep(number(r)) }()
		fmt.Fprintln(w, <-done)
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], nil))
}
