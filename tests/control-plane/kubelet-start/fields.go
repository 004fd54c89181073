package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/kubelet/config/v1beta1"
)

// fieldAnswer is a field of KubeletConfiguration and what decoding accepts in it.
type fieldAnswer struct {
	// Path has `[]` for the elements of a list and `{}` for the values of a map.
	Path string `json:"path"`
	// Type is a kind of Go, `list`, `map`, `struct`, or the name of a type that decodes itself; `*`
	// before it: a pointer, which null leaves unset.
	Type string `json:"type"`
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func fields() []fieldAnswer {
	var all []fieldAnswer
	walk("", reflect.TypeFor[v1beta1.KubeletConfiguration](), &all)
	slices.SortFunc(all, func(a, b fieldAnswer) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func walk(path string, of reflect.Type, all *[]fieldAnswer) {
	pointer := of.Kind() == reflect.Pointer
	if pointer {
		of = of.Elem()
	}
	add := func(name string) {
		if pointer {
			name = "*" + name
		}
		*all = append(*all, fieldAnswer{path, name})
	}
	switch {
	case reflect.PointerTo(of).Implements(unmarshaler):
		add(of.String())
	case of.Kind() == reflect.Struct:
		if path != "" {
			add("struct")
		}
		for i := range of.NumField() {
			field := of.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
				walk(path, field.Type, all)
				continue
			}
			if name == "" {
				panic(fmt.Sprintf("no name for %s.%s", of, field.Name))
			}
			walk(strings.TrimPrefix(path+"."+name, "."), field.Type, all)
		}
	case of.Kind() == reflect.Slice:
		add("list")
		walk(path+"[]", of.Elem(), all)
	case of.Kind() == reflect.Map:
		add("map")
		walk(path+"{}", of.Elem(), all)
	default:
		add(of.Kind().String())
	}
}
