package simulate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CheckPicture returns why no picture can be drawn into a file of that name: it is
// asked before a long simulation. What is in the file stays.
func CheckPicture(name string) error {
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	f.Close()
	if missing != nil {
		return os.Remove(name)
	}
	return nil
}

// PictureFormat returns the format of a picture of that name.
func PictureFormat(name string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if renderers[format] == nil {
		return "", fmt.Errorf("%q does not end in .svg or .png", name)
	}
	return format, nil
}

// DrawPicture draws the results into the file in place of what was in it.
func DrawPicture(name string, w *Workload, all []Result) error {
	format, _ := PictureFormat(name) // Plot refuses none
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(Plot(f, format, w, all), f.Close())
}
