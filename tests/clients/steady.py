"""Requests a page again and again until standard input ends, and then tells how many requests have failed.

    steady.py PORT TEXT     each response must have status 200 and contain TEXT

Some connections stay open until the server announces that it closes them; the others have one request each. Prints `ready` once each of
them has had a response, and at the end `N passed, N failed`, after a line for each of the first failures.
"""

import http.client
import sys
import threading

CONNECTIONS = 4
SHOWN_MAX = 10

port, text = int(sys.argv[1]), sys.argv[2].encode()
stop = threading.Event()
warm = threading.Barrier(2 * CONNECTIONS + 1)
lock = threading.Lock()
passed = 0
failures = []


def record(failure):
    global passed
    with lock:
        if failure is None:
            passed += 1
        else:
            failures.append(failure)


def run(keeps):
    connection, first = None, True
    while first or not stop.is_set():
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/", headers={} if keeps else {"Connection": "close"})
            response = connection.getresponse()
            content = response.read()
            is_right = response.status == 200 and text in content
            record(None if is_right else f"status {response.status}, {len(content)} bytes")
            if response.will_close:
                connection.close()
                connection = None
        except (OSError, http.client.HTTPException) as error:
            record(f"{'a kept' if keeps else 'a new'} connection: {error!r}")
            connection = None
        if first:
            first = False
            warm.wait()


threads = [threading.Thread(target=run, args=(number < CONNECTIONS,)) for number in range(2 * CONNECTIONS)]
for thread in threads:
    thread.start()
warm.wait()
print("ready", flush=True)
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join()
for failure in failures[:SHOWN_MAX]:
    print(failure)
print(f"{passed} passed, {len(failures)} failed")
sys.exit(1 if failures else 0)
