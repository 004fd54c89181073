//go:build !kubernetes1.33

package main

import (
	"sync"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

// tolerationFlags are the API server's own flags for the plugin's defaults.
var tolerationFlags = sync.OnceValue(func() *pflag.FlagSet {
	flags := pflag.NewFlagSet("tolerations", pflag.ContinueOnError)
	defaulttolerationseconds.RegisterFlags(flags)
	return flags
})

// initTolerations makes the plugin read its flags.
func initTolerations(plugin *defaulttolerationseconds.Plugin) error {
	plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	return plugin.ValidateInitialization()
}
