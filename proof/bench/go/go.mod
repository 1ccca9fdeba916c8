module onetrip/bench

go 1.24

require (
	github.com/jackc/pgpassfile v1.0.0
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761
	github.com/jackc/pgx/v5 v5.7.6
	golang.org/x/crypto v0.37.0
	golang.org/x/text v0.24.0
)
