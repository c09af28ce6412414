package simulate

var StyleOf = styleOf
