// Oracle answers cases by Kubernetes' own code: one JSON document a line on stdin, one a line on
// stdout, in the same order. A case names its kind; a case that cannot be read answers
// {"failure": "…"}, which is never an answer of Kubernetes.
package main

import "nodelife.dev/control-plane/lines"

// kinds are the questions that can be asked. Those beside admission are in kinds.go: admission
// alone builds with other versions of Kubernetes, too, with the tag onlyadmission.
var kinds = lines.Kinds{
	"admission": admit,
}

func main() {
	lines.Answer(kinds)
}
