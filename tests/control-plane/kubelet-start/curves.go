//go:build !(kubernetes1.33 || kubernetes1.34 || kubernetes1.35)

package main

import (
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

func curves(configuration *kubeletconfig.KubeletConfiguration) error {
	_, err := cliflag.TLSCurvePreferences(configuration.TLSCurvePreferences)
	return err
}
