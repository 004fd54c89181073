//go:build !onlyadmission

package main

import "maps"

func init() {
	maps.Copy(kinds, map[string]func([]byte) (any, error){
		"quantity":    quantity,
		"allocatable": allocatable,
		"eviction":    evict,
		"zone":        zone,
		"prometheus":  prometheus,
		"sarif":       readSarif,
		"junit":       readJunit,
		"response":    response,
		"filter":      filter,
		"policies":    policies,
		"budget":      budget,
		"schedule":    schedule,
	})
}
