package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// The codec below writes values of the vocabulary as JSON: fields under their Go
// names, zero values left out, numbers without a JSON form as the texts "inf", "-inf"
// and "nan". It knows types and no single field, so that a field which the vocabulary
// gains is kept without a change here, and a run that was written before has it at its
// zero value, which is unknown. A field that is renamed is lost for old runs: that
// needs a migration.
//
// A value of the type Secret, or a map of such values, is never written, wherever it
// stands: what is secret is decided where it is declared.

var (
	secretType = reflect.TypeFor[probes.Secret]()
	timeType   = reflect.TypeFor[time.Time]()
)

// selfCoded are types that write and read themselves, such as Optional.
type selfCoded interface {
	json.Marshaler
	json.Unmarshaler
}

var selfCodedType = reflect.TypeFor[selfCoded]()

func isSelfCoded(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(selfCodedType)
}

// isSecret reports whether values of the type hold a secret and nothing else.
func isSecret(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer:
		return isSecret(t.Elem())
	}
	return t == secretType
}

// marshal writes a value; see above.
func marshal(v any) ([]byte, error) { return appendValue(nil, reflect.ValueOf(v)) }

func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	if v.Type() == timeType { // an instant: the zone of whoever ran is nobody's business
		return appendJSON(b, v.Interface().(time.Time).UTC())
	}
	if isSelfCoded(v.Type()) {
		return appendJSON(b, v.Interface())
	}
	switch v.Kind() {
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Slice, reflect.Array:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendValue(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case reflect.Map:
		return appendMap(b, v)
	case reflect.Pointer:
		return appendValue(b, v.Elem())
	case reflect.String:
		return appendJSON(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(b, v.Float()), nil
	}
	return nil, fmt.Errorf("encode %s: the store has no form for it", v.Type())
}

func appendStruct(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	first := true
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || isSecret(f.Type) || absent(v.Field(i)) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), f.Name...), '"', ':')
		var err error
		if b, err = appendValue(b, v.Field(i)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return append(b, '}'), nil
}

// absent reports whether a field is left out.
func absent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// appendMap writes the keys in order, so that equal values have equal bytes.
func appendMap(b []byte, v reflect.Value) ([]byte, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("encode %s: the store keeps maps of names only", v.Type())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return cmp.Compare(x.String(), y.String()) })
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendJSON(b, key.String()); err != nil {
			return nil, err
		}
		if b, err = appendValue(append(b, ':'), v.MapIndex(key)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, `"inf"`...)
	case math.IsInf(f, -1):
		return append(b, `"-inf"`...)
	case math.IsNaN(f):
		return append(b, `"nan"`...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

func appendJSON(b []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// unmarshal reads what marshal wrote into what into points to. Fields that it does not
// know were written by a newer inferbeat, and are skipped.
func unmarshal(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 would round instants in nanoseconds
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return set(reflect.ValueOf(into).Elem(), tree)
}

// errForm is a value of another form than the field that it is for.
var errForm = errors.New("decode: is not of the field's form")

func set(v reflect.Value, tree any) error {
	if v.Type() == timeType || isSelfCoded(v.Type()) {
		text, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text)
	}
	switch v.Kind() {
	case reflect.Struct:
		fields, ok := tree.(map[string]any)
		if !ok {
			return errForm
		}
		for name, value := range fields {
			field, known := v.Type().FieldByName(name)
			if !known || !field.IsExported() || isSecret(field.Type) {
				continue
			}
			if err := set(v.FieldByIndex(field.Index), value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case reflect.Slice:
		return setSlice(v, tree)
	case reflect.Map:
		return setMap(v, tree)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return set(v.Elem(), tree)
	}
	return setScalar(v, tree)
}

func setSlice(v reflect.Value, tree any) error {
	list, ok := tree.([]any)
	if !ok {
		return errForm
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, value := range list {
		if err := set(v.Index(i), value); err != nil {
			return err
		}
	}
	return nil
}

func setMap(v reflect.Value, tree any) error {
	entries, ok := tree.(map[string]any)
	if !ok {
		return errForm
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(entries)))
	for key, value := range entries {
		entry := reflect.New(v.Type().Elem()).Elem()
		if err := set(entry, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), entry)
	}
	return nil
}

func setScalar(v reflect.Value, tree any) error {
	switch value := tree.(type) {
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(value)
			return nil
		}
	case string:
		switch v.Kind() {
		case reflect.String:
			v.SetString(value)
			return nil
		case reflect.Float32, reflect.Float64:
			f, err := strconv.ParseFloat(value, 64)
			v.SetFloat(f)
			return err
		}
	case json.Number:
		switch {
		case v.CanInt():
			n, err := strconv.ParseInt(value.String(), 10, 64)
			v.SetInt(n)
			return err
		case v.CanUint():
			n, err := strconv.ParseUint(value.String(), 10, 64)
			v.SetUint(n)
			return err
		case v.CanFloat():
			f, err := value.Float64()
			v.SetFloat(f)
			return err
		}
	}
	return errForm
}
