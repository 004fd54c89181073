//go:build kubernetes1.33 || kubernetes1.34 || kubernetes1.35

package main

import kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

// curves has nothing to judge: the field came with 1.36.
func curves(*kubeletconfig.KubeletConfiguration) error { return nil }
