package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/client"
)

// daemon answers as leafd does, for the examples: IDs from 1, and one tag, order.
func daemon() *httptest.Server {
	var last atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/segment/get/") && r.URL.Path != "/api/segment/get/order" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"code":"unknown_key","message":"no tag has this name"}`)
			return
		}
		n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		end := last.Add(n)
		_, _ = fmt.Fprintf(w, "%d-%d\n", end-n+1, end) // n IDs, with as=ranges
	}))
}

func Example() {
	leafd := daemon() // in earnest: two or more daemons
	defer leafd.Close()
	c, err := client.New(client.Config{Addresses: []string{leafd.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	orders := c.Snowflake("order") // keep it: it holds what is fetched ahead
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range 3 {
		id, err := orders.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(id)
	}
	// Output:
	// 1
	// 2
	// 3
}

func ExampleSource_NextN() {
	leafd := daemon()
	defer leafd.Close()
	c, err := client.New(client.Config{Addresses: []string{leafd.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	rows := make([]int64, 5)
	if err := c.Segment("order").NextN(context.Background(), rows); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows)
	// Output: [1 2 3 4 5]
}

// An unknown tag is returned at once as an error; every other failure is waited out.
func ExampleError() {
	leafd := daemon()
	defer leafd.Close()
	c, err := client.New(client.Config{Addresses: []string{leafd.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Segment("invoice").Next(context.Background())
	var refused *client.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Status, refused.Code)
	}
	// Output: 404 unknown_key
}
