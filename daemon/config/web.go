package config

import (
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

// ServesTLS reports whether config_file turns TLS on, by the rule of the exporter
// toolkit: any certificate, key or client authentication does. Errors hold nothing of
// the file, in which passwords are.
func (w Web) ServesTLS() (bool, error) {
	if w.ConfigFile == "" {
		return false, nil
	}
	text, err := os.ReadFile(w.ConfigFile)
	if err != nil {
		return false, fmt.Errorf("read web.config_file: %s", cause(err))
	}
	var file struct {
		TLS struct {
			Cert       string `yaml:"cert"`
			CertFile   string `yaml:"cert_file"`
			Key        string `yaml:"key"`
			KeyFile    string `yaml:"key_file"`
			Clients    string `yaml:"client_ca"`
			ClientFile string `yaml:"client_ca_file"`
			ClientAuth string `yaml:"client_auth_type"`
		} `yaml:"tls_server_config"`
	}
	if yaml.Unmarshal(text, &file) != nil {
		return false, errors.New("read web.config_file: must be YAML, in the format of the Prometheus exporter toolkit")
	}
	t := file.TLS
	return t.Cert+t.CertFile+t.Key+t.KeyFile+t.Clients+t.ClientFile+t.ClientAuth != "", nil
}
