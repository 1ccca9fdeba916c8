// A writer on pgx for the row failover_pause: it writes a row every few milliseconds, connects anew
// when that fails, and prints the time and the server's port when the port is another one.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	var conn *pgx.Conn
	last := 0
	for {
		port, err := write(ctx, &conn)
		if err != nil && conn != nil {
			closing, cancel := context.WithTimeout(ctx, time.Millisecond)
			conn.Close(closing)
			cancel()
			conn = nil
		}
		if err == nil && port != last {
			fmt.Println(time.Now().UnixMicro(), port)
			last = port
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func write(ctx context.Context, conn **pgx.Conn) (port int, err error) {
	if *conn == nil {
		if *conn, err = pgx.Connect(ctx, os.Args[1]); err != nil {
			return
		}
	}
	err = (*conn).QueryRow(ctx, os.Args[2]).Scan(&port)
	return
}
