// A binding of libonetrip for Go, by cgo. cases.go shows that it works.
package main

// #cgo pkg-config: onetrip
// #include <onetrip/onetrip.h>
// #include <stdlib.h>
import "C"

import (
	"encoding/base64"
	"strings"
	"unsafe"
)

// Error says what failed, and whether it took effect.
type Error struct{ Code, Outcome, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

var outcomes = []string{"", "NotSent", "Rejected", "Applied", "Unknown"}

func failure(e *C.ot_error) error {
	return &Error{C.GoString(&e.code[0]), outcomes[e.outcome], C.GoString(&e.message[0])}
}

// Values are copied to memory of C's, which is freed once they were used.
func values(list []any) (*C.ot_value, C.size_t, func()) {
	if len(list) == 0 {
		return nil, 0, func() {}
	}
	size := C.size_t(unsafe.Sizeof(C.ot_value{}))
	at := (*C.ot_value)(C.calloc(C.size_t(len(list)), size))
	all, texts := unsafe.Slice(at, len(list)), []unsafe.Pointer{}
	for i, value := range list {
		switch v := value.(type) {
		case nil:
		case float64:
			all[i] = C.ot_value{kind: C.OT_VALUE_F64, real: C.double(v)}
			if v == float64(int64(v)) {
				all[i] = C.ot_value{kind: C.OT_VALUE_I64, integer: C.int64_t(v)}
			}
		case bool:
			all[i].kind = C.OT_VALUE_BOOL
			if v {
				all[i].integer = 1
			}
		case string:
			text := C.CBytes(append([]byte(v), 0))
			texts = append(texts, text)
			all[i] = C.ot_value{kind: C.OT_VALUE_TEXT, ptr: text, len: C.size_t(len(v))}
		}
	}
	return at, C.size_t(len(list)), func() {
		for _, text := range texts {
			C.free(text)
		}
		C.free(unsafe.Pointer(at))
	}
}

func text(t C.ot_text) string { return string(C.GoBytes(unsafe.Pointer(t.ptr), C.int(t.len))) }

// Connect opens a client.
func Connect(url string) (*C.ot_client, error) {
	of, e, client := C.CString(url), C.ot_error{size: C.uint32_t(unsafe.Sizeof(C.ot_error{}))}, (*C.ot_client)(nil)
	defer C.free(unsafe.Pointer(of))
	open := C.ot_status(0)
	if strings.HasPrefix(url, "redis") {
		open = C.ot_redis_connect(of, C.OT_NTS, 10000, &client, &e)
	} else {
		open = C.ot_pg_connect(of, C.OT_NTS, 10000, &client, &e)
	}
	if open != C.OT_OK {
		return nil, failure(&e)
	}
	return client, nil
}

// Query submits a statement.
func Query(db *C.ot_client, sql string, args []any) (call *C.ot_call) {
	at, count, free := values(args)
	of := C.CBytes(append([]byte(sql), 0))
	C.ot_query(db, (*C.char)(of), C.size_t(len(sql)), at, count, nil, &call)
	free()
	C.free(of)
	return call
}

// Command submits a command.
func Command(db *C.ot_client, args []any) (call *C.ot_call) {
	at, count, free := values(args)
	C.ot_command(db, at, count, nil, &call)
	free()
	return call
}

// Wait takes the result of a call.
func Wait(call *C.ot_call) (result *C.ot_result, err error) {
	e := C.ot_error{size: C.uint32_t(unsafe.Sizeof(C.ot_error{}))}
	if C.ot_wait(call, -1, &result, &e) != C.OT_OK {
		return nil, failure(&e)
	}
	return result, nil
}

// Rows reads a result as JSON has it.
func Rows(r *C.ot_result) []any {
	rows := []any{}
	for row := C.size_t(0); row < C.ot_rows(r); row++ {
		values := []any{}
		for column := C.size_t(0); column < C.ot_columns(r); column++ {
			var t C.ot_text
			var oid C.uint32_t
			C.ot_column_type(r, column, &oid)
			if C.ot_get_text(r, row, column, &t) == C.OT_NULL {
				values = append(values, nil)
			} else if oid == 20 || oid == 21 || oid == 23 {
				var n C.int64_t
				C.ot_get_i64(r, row, column, &n)
				values = append(values, float64(n))
			} else if oid == 16 {
				values = append(values, text(t) == "t")
			} else {
				values = append(values, text(t))
			}
		}
		rows = append(rows, values)
	}
	return rows
}

// Reply reads a reply as the cases have it.
func Reply(of *C.ot_reply) any {
	var t C.ot_text
	C.ot_reply_text(of, &t)
	switch C.ot_reply_kind(of) {
	case C.OT_REPLY_STATUS:
		return map[string]any{strings.ToLower(text(t)): true}
	case C.OT_REPLY_INTEGER:
		var n C.int64_t
		C.ot_reply_i64(of, &n)
		return float64(n)
	case C.OT_REPLY_STRING:
		if valid := strings.ToValidUTF8(text(t), ""); valid != text(t) {
			return map[string]any{"base64": base64.StdEncoding.EncodeToString([]byte(text(t)))}
		}
		return text(t)
	case C.OT_REPLY_ARRAY, C.OT_REPLY_SET, C.OT_REPLY_MAP:
		items := []any{}
		for i := C.size_t(0); i < C.ot_reply_size(of); i++ {
			var item *C.ot_reply
			C.ot_reply_at(of, i, &item)
			items = append(items, Reply(item))
		}
		switch C.ot_reply_kind(of) {
		case C.OT_REPLY_SET:
			return map[string]any{"set": items}
		case C.OT_REPLY_MAP:
			m := map[string]any{}
			for i := 0; i < len(items); i += 2 {
				m[items[i].(string)] = items[i+1]
			}
			return map[string]any{"map": m}
		}
		return items
	}
	return nil
}
