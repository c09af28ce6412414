package metrics

import "github.com/prometheus/client_golang/prometheus"

// Registry is where all of it is registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }
