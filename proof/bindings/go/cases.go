// The conformance cases of statements and of commands, by the binding of this folder. Run by
// proof/bindings/run.
package main

// #include <onetrip/onetrip.h>
import "C"

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
)

type object = map[string]any

var failed = 0

func cases(file string, run func(one object, name string) error) {
	bytes, err := os.ReadFile(filepath.Join("..", "..", "conformance", file))
	var of struct{ Cases []object }
	if err == nil {
		err = json.Unmarshal(bytes, &of)
	}
	if err != nil {
		panic(err)
	}
	for i, one := range of.Cases {
		if err := run(one, fmt.Sprintf("go_%d", i)); err != nil {
			failed++
			fmt.Printf("%s: %s: %v\n", file, one["name"], err)
		}
	}
	fmt.Printf("go: %s: %d cases\n", file, len(of.Cases))
}

// A failure has to be the one that the case has.
func expected(err error, wanted any, outcome any) error {
	e, is := err.(*Error)
	if !is || wanted == nil {
		return err
	}
	if code, is := wanted.(object); is {
		wanted, outcome = code["sqlstate"], code["outcome"]
	}
	if (wanted == nil || e.Code == wanted) && (outcome == nil || outcome == "any" || e.Outcome == outcome) {
		return nil
	}
	return fmt.Errorf("%s, %s, and not %v, %v", e.Code, e.Outcome, wanted, outcome)
}

func statement(db *C.ot_client, of any, table string) error {
	if sql, is := of.(string); is {
		of = object{"text": sql}
	}
	it := of.(object)
	parameters, _ := it["parameters"].([]any)
	sql := strings.ReplaceAll(it["text"].(string), "{t}", table)
	result, err := Wait(Query(db, sql, parameters))
	if err != nil {
		return expected(err, it["error"], nil)
	}
	defer C.ot_result_free(result)
	if it["error"] != nil {
		return fmt.Errorf("no error, but %v", it["error"])
	}
	if rows := it["rows"]; rows != nil && !reflect.DeepEqual(rows, any(Rows(result))) {
		return fmt.Errorf("%v and not %v", Rows(result), rows)
	}
	if count := it["count"]; count != nil && count != float64(C.ot_affected(result)) {
		return fmt.Errorf("%v rows and not %v", C.ot_affected(result), count)
	}
	return nil
}

// Sets have no order.
func sorted(of any) any {
	if it, is := of.(object); is {
		if set, is := it["set"].([]any); is {
			sort.Slice(set, func(a, b int) bool { return fmt.Sprint(set[a]) < fmt.Sprint(set[b]) })
		}
	}
	return of
}

func command(db *C.ot_client, it object, key string) error {
	args := []any{}
	for _, arg := range it["command"].([]any) {
		if of, is := arg.(object); is {
			bytes, _ := base64.StdEncoding.DecodeString(of["base64"].(string))
			arg = string(bytes)
		}
		args = append(args, strings.ReplaceAll(arg.(string), "{k}", key))
	}
	result, err := Wait(Command(db, args))
	if err != nil {
		return expected(err, it["error"], it["outcome"])
	}
	defer C.ot_result_free(result)
	var reply *C.ot_reply
	C.ot_result_reply(result, 0, &reply)
	if got := Reply(reply); !reflect.DeepEqual(sorted(got), sorted(it["reply"])) {
		return fmt.Errorf("%v: %v and not %v", args, got, it["reply"])
	}
	return nil
}

func main() {
	db, err := Connect(os.Args[1])
	if err != nil {
		panic(err)
	}
	if strings.HasPrefix(os.Args[1], "redis") {
		cases("redis_commands.json", func(one object, name string) error {
			if !strings.Contains(fmt.Sprint(one["how"]), "one by one") {
				return nil
			}
			for _, it := range one["commands"].([]any) {
				if err := command(db, it.(object), "{"+name+"}"); err != nil && one["needs"] == nil {
					return err
				}
			}
			return nil
		})
	} else {
		cases("postgres_statements.json", func(one object, name string) error {
			for _, part := range []string{"setup", "statements", "then"} {
				list, _ := one[part].([]any)
				for _, of := range list {
					if err := statement(db, of, name); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if C.ot_close(db, 10000, nil) != C.OT_OK || failed > 0 {
		os.Exit(1)
	}
}
