// Command kstatus reads NodeMaintenance objects, one a line, and writes the health check of docs/maintenance.md, and
// each object with what Flux and Argo CD make of it: kstatus by its own code, and that check as Argo CD runs it.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type line struct {
	Object  *unstructured.Unstructured `json:"object"`
	Kstatus string                     `json:"kstatus"`
	Argo    string                     `json:"argo"`
}

// script cuts the health check out of the page.
func script(page string) string {
	const key = "resource.customizations.health.nodelife.dev_NodeMaintenance: |\n"
	text, err := os.ReadFile(page)
	if err != nil {
		log.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), key)
	check, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		log.Fatal("no health check in ", page)
	}
	return check
}

// value is decodeValue of argo-cd's util/lua/json.go.
func value(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, item := range v {
			t.Append(value(l, item))
		}
		return t
	case map[string]any:
		t := l.CreateTable(0, len(v))
		for key, item := range v {
			t.RawSetH(lua.LString(key), value(l, item))
		}
		return t
	}
	return lua.LNil
}

// health runs the check as ExecuteHealthLua of argo-cd's util/lua/lua.go does: without the open libraries but these.
func health(check string, object map[string]any) string {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, open := range []lua.LGFunction{lua.OpenPackage, lua.OpenBase, lua.OpenTable, lua.OpenString} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	l.SetGlobal("obj", value(l, object))
	if err := l.DoString(check); err != nil {
		log.Fatal(err)
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		log.Fatal("the check returned no table")
	}
	return table.RawGetString("status").String()
}

func main() {
	check := script(os.Args[1])
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(map[string]string{"check": check}); err != nil {
		log.Fatal(err)
	}
	for in.Scan() {
		var one line
		if err := json.Unmarshal(in.Bytes(), &one); err != nil {
			log.Fatal(err)
		}
		if one.Object == nil {
			continue
		}
		result, err := status.Compute(one.Object)
		if err != nil {
			log.Fatal(one.Object.GetName(), ": ", err)
		}
		one.Kstatus, one.Argo = result.Status.String(), health(check, one.Object.Object)
		if err := out.Encode(one); err != nil {
			log.Fatal(err)
		}
	}
}
