package tunnel

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/plughost/plughost/shared/wire"
)

// decode makes the SDK's message of a frame's bytes, which it keeps. The SDK's
// own decoder costs a hundred times as much.
func decode(data []byte) (jsonrpc.Message, error) {
	m, err := wire.Scan(data)
	if err != nil {
		return nil, err
	}
	if m.Error.Found() { // seldom
		return jsonrpc.DecodeMessage(data)
	}
	id, err := decodeID(m.Bytes(m.ID))
	if err != nil {
		return nil, err
	}
	if m.Kind == wire.Response {
		return &jsonrpc.Response{ID: id, Result: m.Bytes(m.Result)}, nil
	}
	return &jsonrpc.Request{ID: id, Method: string(m.Method), Params: m.Bytes(m.Params)}, nil
}

func decodeID(raw []byte) (jsonrpc.ID, error) {
	switch {
	case len(raw) == 0:
		return jsonrpc.ID{}, nil
	case raw[0] == '"':
		text, ok := wire.Text(raw)
		if !ok {
			return jsonrpc.ID{}, errors.New("cannot decode an id")
		}
		return jsonrpc.MakeID(string(text))
	default:
		number, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return jsonrpc.ID{}, fmt.Errorf("cannot decode an id: %w", err)
		}
		return jsonrpc.MakeID(number)
	}
}

// encode makes the bytes of a message. The SDK made JSON of what is in it
// already: only the envelope is left to write, which its own encoder does by
// going through all of it once more.
func encode(message jsonrpc.Message) ([]byte, error) {
	response, ok := message.(*jsonrpc.Response)
	if !ok || response.Error != nil || len(response.Result) == 0 {
		return jsonrpc.EncodeMessage(message)
	}
	id, ok := response.ID.Raw().(int64)
	if !ok {
		return jsonrpc.EncodeMessage(message)
	}
	const before, between, after = `{"jsonrpc":"2.0","id":`, `,"result":`, `}`
	data := make([]byte, 0, len(before)+20+len(between)+len(response.Result)+len(after))
	data = append(data, before...)
	data = strconv.AppendInt(data, id, 10)
	data = append(data, between...)
	data = append(data, response.Result...)
	return append(data, after...), nil
}
