package lua

import (
	"reflect"

	vm "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// concatKey is a key of the table string. Its value is the function that implements the operator ..
// in scripts. A script cannot write this key as a name.
const concatKey = "\x00concat"

// bound replaces the operator .. in the part v of a syntax tree by calls of the function concat,
// which checks the memory first. The operator itself could double a text many times before the next
// check of the memory.
func bound(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if x, is := reflect.TypeAssert[*ast.StringConcatOpExpr](v); is {
			v.Set(reflect.ValueOf(concatCall(x)))
			return
		}
		bound(v.Elem())
	case reflect.Pointer:
		bound(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			bound(v.Index(i))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				bound(f)
			}
		}
	}
}

// maxOperands is the maximum number of arguments of one call. A function has only 250 registers.
const maxOperands = 50

// concatCall returns the call that replaces a .. b .. c, which is a nested expression.
func concatCall(x *ast.StringConcatOpExpr) ast.Expr {
	at := func(e ast.Expr) {
		e.SetLine(x.Line())
		e.SetLastLine(x.LastLine())
	}
	one := func(e ast.Expr) ast.Expr { // use only the first value of a call or of ...
		bound(reflect.ValueOf(&e))
		switch e := e.(type) {
		case *ast.FuncCallExpr:
			e.AdjustRet = true
		case *ast.Comma3Expr:
			e.AdjustRet = true
		}
		return e
	}
	texts, key := &ast.StringExpr{}, &ast.StringExpr{Value: concatKey}
	get := &ast.AttrGetExpr{Object: texts, Key: key}
	call := &ast.FuncCallExpr{Func: get, AdjustRet: true}
	for _, e := range []ast.Expr{texts, key, get, call} {
		at(e)
	}
	rest := ast.Expr(x)
	for len(call.Args) < maxOperands {
		next, more := rest.(*ast.StringConcatOpExpr)
		if !more {
			break
		}
		call.Args = append(call.Args, one(next.Lhs))
		rest = next.Rhs
	}
	call.Args = append(call.Args, one(rest))
	return call
}

// concat implements the operator .. for any number of arguments.
func (t *thread) concat(l *vm.LState) int {
	n := l.GetTop()
	right := l.Get(n)
	for i := n - 1; i > 0; i-- {
		left := l.Get(i)
		if vm.LVCanConvToString(left) && vm.LVCanConvToString(right) {
			a, b := vm.LVAsString(left), vm.LVAsString(right)
			t.room(uint64(len(a)+len(b)), 1)
			right = vm.LString(a + b)
			continue
		}
		op := l.GetMetaField(left, "__concat")
		if op == vm.LNil {
			op = l.GetMetaField(right, "__concat")
		}
		if op.Type() != vm.LTFunction {
			l.RaiseError("cannot perform concat operation between %v and %v", left.Type().String(), right.Type().String())
		}
		l.Push(op)
		l.Push(left)
		l.Push(right)
		l.Call(2, 1)
		right = l.Get(-1)
		l.Pop(1)
	}
	l.Push(right)
	return 1
}
