package pluginconfig_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/plughost/plughost/shared/pluginconfig"
)

// A field without a default must be configured; a secret is marked as one.
func ExampleNew() {
	settings := struct {
		City   string `json:"city" jsonschema:"whose weather is told"`
		Unit   string `json:"unit" plughost:"enum=celsius|fahrenheit"`
		APIKey string `json:"api_key" plughost:"sensitive"`
	}{Unit: "celsius"}

	config, err := pluginconfig.New(&settings)
	if err != nil {
		fmt.Println(err)
		return
	}
	var schema bytes.Buffer
	_ = json.Indent(&schema, config.Schema(), "", "  ")
	fmt.Println(&schema)
	// Output:
	// {
	//   "type": "object",
	//   "properties": {
	//     "city": {
	//       "type": "string",
	//       "description": "whose weather is told"
	//     },
	//     "unit": {
	//       "type": "string",
	//       "default": "celsius",
	//       "enum": [
	//         "celsius",
	//         "fahrenheit"
	//       ]
	//     },
	//     "api_key": {
	//       "type": "string",
	//       "writeOnly": true
	//     }
	//   },
	//   "$schema": "https://json-schema.org/draft/2020-12/schema",
	//   "required": [
	//     "city",
	//     "api_key"
	//   ],
	//   "additionalProperties": false
	// }
}

// What is wrong has a path, and never the value.
func ExampleConfig_Set() {
	settings := struct {
		Every pluginconfig.Duration `json:"every"`
		Tries int                   `json:"tries"`
	}{Tries: 3}
	config, err := pluginconfig.New(&settings)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Set([]byte(`{"every": "1m30s"}`)), settings.Tries)
	fmt.Println(config.Set([]byte(`{"tries": "many"}`))[0])
	// Output:
	// [] 3
	// config.tries: a number is wanted, not a JSON string
}
