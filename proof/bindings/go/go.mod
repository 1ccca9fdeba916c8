module onetrip.test/bindings

go 1.21
