// Sends requests with Go's net/http. README.md documents the input and output.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"time"
)

func main() {
	origin, connections := os.Args[1], 0
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			connections++
		}
	}}
	client := &http.Client{Timeout: 20 * time.Second}
	lines, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		request := must(http.NewRequest(words[0], origin+words[1], nil))
		for _, field := range words[2:] {
			name, value, _ := strings.Cut(field, ": ")
			request.Header.Set(name, value)
		}
		response := must(client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace))))
		content := must(io.ReadAll(response.Body))
		response.Body.Close()
		form := "as-sent"
		if response.Uncompressed {
			form = "decoded"
		}
		fmt.Fprintf(out, "%d %d %s %d\n", response.StatusCode, connections, form, len(content))
		for name, values := range response.Header {
			fmt.Fprintf(out, "%s: %s\n", name, strings.Join(values, ", "))
		}
		out.WriteString("\n")
		out.Write(content)
		out.Flush()
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
