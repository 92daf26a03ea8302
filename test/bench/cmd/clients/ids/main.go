// Command ids WAY URL... takes IDs in one way: for each line of its input, a number of calls and
// the seconds after each, it makes them and prints how many failed.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/client"
)

func main() {
	take, err := ways(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var calls int
	var pause float64
	for {
		if _, err := fmt.Scan(&calls, &pause); err != nil {
			return
		}
		failed := 0
		for range calls {
			ctx, cancel := context.Background(), func() {}
			if pause > 0 { // else its cost would be several times that of an ID
				ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
			}
			if _, err := take(ctx); err != nil {
				failed++
			}
			cancel()
			time.Sleep(time.Duration(pause * float64(time.Second)))
		}
		fmt.Println(failed)
	}
}

type call func(context.Context) (int64, error)

func ways(way string, urls []string) (call, error) {
	switch way {
	case "single":
		return func(ctx context.Context) (int64, error) { return single(ctx, urls[0]) }, nil
	case "list":
		l := &list{url: urls[0]}
		return l.next, nil
	default:
		return ranges(urls)
	}
}

// -- single list

var httpClient = http.Client{Timeout: time.Second} //nolint:gochecknoglobals // as a service has it

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // a daemon of the rig
	if err != nil {
		return "", err
	}
	resp, err := httpClient.Do(req) //nolint:gosec // a daemon of the rig
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// -- single

func single(ctx context.Context, url string) (int64, error) {
	body, err := get(ctx, url+"/api/snowflake/get/order")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(body), 10, 64)
}

// -- list

type list struct {
	url  string
	held []string
}

func (l *list) next(ctx context.Context) (int64, error) {
	if len(l.held) == 0 {
		body, err := get(ctx, l.url+"/api/snowflake/get/order?n=1000")
		if err != nil {
			return 0, err
		}
		l.held = strings.Fields(body)
	}
	id := l.held[0]
	l.held = l.held[1:]
	return strconv.ParseInt(id, 10, 64)
}

// -- ranges

func ranges(urls []string) (call, error) {
	c, err := client.New(client.Config{Addresses: urls})
	if err != nil {
		return nil, err
	}
	return c.Snowflake("order").Next, nil
}

// -- end
