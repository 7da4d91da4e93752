package launch

// Attributes is attributes, for tests.
var Attributes = attributes
