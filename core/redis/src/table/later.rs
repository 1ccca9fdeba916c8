//! Commands added after Redis 7.0, as far as needed: those that concern their connection, and
//! common ones on a key. They were written down from their documentation. Also two that every
//! server recognises although it has no such command: the beginnings of HTTP.

use super::keys::{KeySpec, index, range};
use super::rows::table;

const AT_1: KeySpec = range(index(1), 0, 1, 0);

table! {
    "CLIENT CAPA" -3 () () Usual Usual;
    "CLIENT NO-TOUCH" 3 () () Usual Usual;
    "CLIENT SETINFO" 4 () () Usual Usual;
    "CLUSTER MYSHARDID" 2 () () Usual Usual;
    "DELIFEQ" 3 (WRITE) (AT_1) Usual Usual;
    "HEXPIRE" -6 (WRITE) (AT_1) Usual Usual;
    "HEXPIREAT" -6 (WRITE) (AT_1) Usual Usual;
    "HEXPIRETIME" -5 (READONLY) (AT_1) Usual Usual;
    "HGETDEL" -5 (WRITE) (AT_1) Usual Usual;
    "HGETEX" -5 (WRITE) (AT_1) Usual Usual;
    "HPERSIST" -5 (WRITE) (AT_1) Usual Usual;
    "HOST:" -1 () () Usual Usual;
    "HPEXPIRE" -6 (WRITE) (AT_1) Usual Usual;
    "HPEXPIREAT" -6 (WRITE) (AT_1) Usual Usual;
    "HPEXPIRETIME" -5 (READONLY) (AT_1) Usual Usual;
    "HPTTL" -5 (READONLY) (AT_1) Usual Usual;
    "HSETEX" -6 (WRITE) (AT_1) Usual Usual;
    "HTTL" -5 (READONLY) (AT_1) Usual Usual;
    "POST" -1 () () Usual Usual;
    "WAITAOF" 4 () () AllShards Min;
}
