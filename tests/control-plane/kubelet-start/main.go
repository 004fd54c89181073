// Kubelet answers questions about the start of the kubelet by Kubernetes' own code, of whichever
// version it is built with. It links what the kubelet links and nothing else: other components
// register other feature gates.
package main

import (
	"encoding/json"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/kubernetes/cmd/kubelet/app"
	"nodelife.dev/control-plane/lines"
)

func main() {
	lines.Answer(lines.Kinds{
		"start":  start,
		"gates":  func([]byte) (any, error) { return gates(), nil },
		"fields": func([]byte) (any, error) { return fields(), nil },
	})
}

// startCase is the file of the kubelet's --config, as text.
type startCase struct {
	File string `json:"file"`
}

func start(line []byte) (any, error) {
	var c startCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	return judge(c.File)
}
