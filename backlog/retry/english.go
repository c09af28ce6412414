package retry

import "errors"

func parseEnglish(string) (*Refresh, error) { return nil, errors.New("no sentence is understood") }
