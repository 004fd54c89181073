//go:build kubernetes1.33

package main

import (
	"flag"

	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

// tolerationFlags are the API server's own flags for the plugin's defaults, which the plugin
// registers by itself.
func tolerationFlags() *flag.FlagSet { return flag.CommandLine }

// initTolerations has nothing to do: the plugin reads its flags at each request.
func initTolerations(*defaulttolerationseconds.Plugin) error { return nil }
