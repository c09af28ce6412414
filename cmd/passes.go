package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"backlog/backlog/advise"
	"backlog/backlog/config"
)

// readPasses returns what the files tell of passes or, without files, what the state folder of the
// configuration's table does. The history is empty if there is no file in the state folder. It needs no
// database.
func (g *globalOptions) readPasses(cfg *config.Config, files []string) (*advise.History, error) {
	if len(files) == 0 {
		return readStatePasses(cfg)
	}
	var readers []io.Reader
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--passes: %w", err)
		}
		defer file.Close()
		readers = append(readers, file)
	}
	h, err := advise.Read(readers...)
	if err != nil { // it has the name of the file
		return nil, fmt.Errorf("--passes: %w", err)
	}
	return h, nil
}

// readStatePasses returns the history in the state folder of the configuration's table.
func readStatePasses(cfg *config.Config) (*advise.History, error) {
	state, err := stateFile(cfg)
	if err != nil {
		return nil, err
	}
	file, err := state.OpenPasses()
	if errors.Is(err, fs.ErrNotExist) {
		return advise.Read()
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return advise.Read(file)
}
