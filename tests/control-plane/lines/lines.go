// Package lines answers questions: one JSON document a line on stdin, one a line on stdout, in the
// same order. A question names its kind; one that cannot be read is answered {"failure": "…"}.
package lines

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// Kinds are the questions that a program answers, by name. Each gets the whole line.
type Kinds map[string]func([]byte) (any, error)

// Answer answers until stdin ends.
func Answer(kinds Kinds) {
	// Warnings of the code under test are not answers.
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("logtostderr", "false"); err != nil {
		panic(err)
	}
	klog.SetOutput(io.Discard)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := json.NewEncoder(out).Encode(kinds.answer(line)); err != nil {
				panic(err)
			}
		}
		if err != nil {
			break
		}
		// Answers leave when nothing more is to be read at once: batches stay fast, and one
		// question is answered at once.
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
	out.Flush()
}

type failure struct {
	Failure string `json:"failure"`
}

func (kinds Kinds) answer(line []byte) (result any) {
	defer func() {
		if problem := recover(); problem != nil {
			result = failure{fmt.Sprintf("panic: %v", problem)}
		}
	}()
	var question struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return failure{err.Error()}
	}
	ask, known := kinds[question.Kind]
	if !known {
		return failure{fmt.Sprintf("no kind %q", question.Kind)}
	}
	result, err := ask(line)
	if err != nil {
		return failure{err.Error()}
	}
	return result
}
