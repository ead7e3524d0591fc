package shop_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// fake is a database that answers only the query for the price of a mug and a pen.
type fake struct{}

var errTransaction = errors.New("there are no transactions")

func (f fake) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f fake) Driver() driver.Driver                        { return f }
func (f fake) Open(string) (driver.Conn, error)             { return f, nil }
func (f fake) Prepare(string) (driver.Stmt, error)          { return f, nil }
func (f fake) Begin() (driver.Tx, error)                    { return nil, errTransaction }
func (f fake) Close() error                                 { return nil }
func (f fake) NumInput() int                                { return 1 }
func (f fake) Exec([]driver.Value) (driver.Result, error)   { return driver.RowsAffected(0), nil }

func (f fake) Query(args []driver.Value) (driver.Rows, error) {
	if args[0] != "mug,pen" {
		return nil, errors.New("no such thing")
	}
	return &price{}, nil
}

// price is the result of the query, a single row.
type price struct{ read bool }

func (p *price) Columns() []string { return []string{"sum"} }
func (p *price) Close() error      { return nil }

func (p *price) Next(dest []driver.Value) error {
	if p.read {
		return io.EOF
	}
	p.read, dest[0] = true, int64(12)
	return nil
}
