// Responds with Go's net/http. README.md documents the responses.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
)

func main() {
	events := make(chan bool, 100)
	handler := http.NewServeMux()
	handler.HandleFunc("/app/", func(response http.ResponseWriter, request *http.Request) {
		switch {
		case request.Method == "POST":
			content, err := io.ReadAll(request.Body)
			if err != nil {
				log.Print(err)
				return
			}
			response.Header().Set("Content-Length", strconv.Itoa(len(content)))
			response.Write(content)
		case request.URL.Path == "/app/":
			io.WriteString(response, "hello from go\n")
		default:
			response.WriteHeader(404)
			io.WriteString(response, "nothing\n")
		}
	})
	handler.HandleFunc("/app/next", func(response http.ResponseWriter, request *http.Request) {
		events <- true
		response.WriteHeader(204)
	})
	handler.HandleFunc("/app/chunks", func(response http.ResponseWriter, request *http.Request) {
		for number := 0; number < 100; number++ {
			fmt.Fprintf(response, "chunk %d\n", number)
			response.(http.Flusher).Flush()
		}
	})
	handler.HandleFunc("/app/events", func(response http.ResponseWriter, request *http.Request) {
		response.Header().Set("Content-Type", "text/event-stream")
		response.(http.Flusher).Flush()
		for number := 0; number < 3; number++ {
			<-events
			fmt.Fprintf(response, "data: %d\n\n", number)
			response.(http.Flusher).Flush()
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go http.Serve(listener, handler)
	// The test ends the program.
	io.Copy(io.Discard, os.Stdin)
}
