"""Commands as methods. Do not edit: written by
``scripts/python-commands > faces/python/onetrip/redis/_commands.py``.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from .._native import Call, Spec

T = TypeVar("T", str, bytes)

Key: TypeAlias = "str | bytes | bytearray | memoryview"
Arg: TypeAlias = "str | bytes | bytearray | memoryview | int | float"
#: Several in place of one.
Many: TypeAlias = "Arg | Sequence[Arg] | AbstractSet[Arg]"
#: An index or a score; ``"-inf"``, ``"(1.5"``.
Bound: TypeAlias = "int | float | str | bytes"
Entries: TypeAlias = "list[tuple[str, dict[T, T]]]"
Side: TypeAlias = Literal["LEFT", "RIGHT"]
Where: TypeAlias = Literal["BEFORE", "AFTER"]

_ACL_CAT = Spec("ACL CAT")
_ACL_DELUSER = Spec("ACL DELUSER")
_ACL_DRYRUN = Spec("ACL DRYRUN")
_ACL_GENPASS = Spec("ACL GENPASS")
_ACL_GETUSER = Spec("ACL GETUSER")
_ACL_HELP = Spec("ACL HELP")
_ACL_LIST = Spec("ACL LIST")
_ACL_LOAD = Spec("ACL LOAD")
_ACL_LOG = Spec("ACL LOG")
_ACL_SAVE = Spec("ACL SAVE")
_ACL_SETUSER = Spec("ACL SETUSER")
_ACL_USERS = Spec("ACL USERS")
_ACL_WHOAMI = Spec("ACL WHOAMI")
_APPEND = Spec("APPEND")
_ASKING = Spec("ASKING")
_AUTH = Spec("AUTH")
_BGREWRITEAOF = Spec("BGREWRITEAOF")
_BGSAVE = Spec("BGSAVE")
_BITCOUNT = Spec("BITCOUNT")
_BITFIELD = Spec("BITFIELD")
_BITFIELD_RO = Spec("BITFIELD_RO")
_BITOP = Spec("BITOP")
_BITPOS = Spec("BITPOS")
_BLMOVE = Spec("BLMOVE")
_BLMPOP = Spec("BLMPOP")
_BLPOP = Spec("BLPOP", "tuple")
_BRPOP = Spec("BRPOP", "tuple")
_BRPOPLPUSH = Spec("BRPOPLPUSH")
_BZMPOP = Spec("BZMPOP")
_BZPOPMAX = Spec("BZPOPMAX", "key_scored")
_BZPOPMIN = Spec("BZPOPMIN", "key_scored")
_CLIENT_CACHING = Spec("CLIENT CACHING")
_CLIENT_CAPA = Spec("CLIENT CAPA")
_CLIENT_GETNAME = Spec("CLIENT GETNAME")
_CLIENT_GETREDIR = Spec("CLIENT GETREDIR")
_CLIENT_HELP = Spec("CLIENT HELP")
_CLIENT_ID = Spec("CLIENT ID")
_CLIENT_INFO = Spec("CLIENT INFO")
_CLIENT_KILL = Spec("CLIENT KILL")
_CLIENT_LIST = Spec("CLIENT LIST")
_CLIENT_NO_EVICT = Spec("CLIENT NO-EVICT")
_CLIENT_NO_TOUCH = Spec("CLIENT NO-TOUCH")
_CLIENT_PAUSE = Spec("CLIENT PAUSE")
_CLIENT_SETINFO = Spec("CLIENT SETINFO")
_CLIENT_SETNAME = Spec("CLIENT SETNAME")
_CLIENT_TRACKING = Spec("CLIENT TRACKING")
_CLIENT_TRACKINGINFO = Spec("CLIENT TRACKINGINFO")
_CLIENT_UNBLOCK = Spec("CLIENT UNBLOCK")
_CLIENT_UNPAUSE = Spec("CLIENT UNPAUSE")
_CLUSTER_ADDSLOTS = Spec("CLUSTER ADDSLOTS")
_CLUSTER_ADDSLOTSRANGE = Spec("CLUSTER ADDSLOTSRANGE")
_CLUSTER_BUMPEPOCH = Spec("CLUSTER BUMPEPOCH")
_CLUSTER_COUNT_FAILURE_REPORTS = Spec("CLUSTER COUNT-FAILURE-REPORTS")
_CLUSTER_COUNTKEYSINSLOT = Spec("CLUSTER COUNTKEYSINSLOT")
_CLUSTER_DELSLOTS = Spec("CLUSTER DELSLOTS")
_CLUSTER_DELSLOTSRANGE = Spec("CLUSTER DELSLOTSRANGE")
_CLUSTER_FAILOVER = Spec("CLUSTER FAILOVER")
_CLUSTER_FLUSHSLOTS = Spec("CLUSTER FLUSHSLOTS")
_CLUSTER_FORGET = Spec("CLUSTER FORGET")
_CLUSTER_GETKEYSINSLOT = Spec("CLUSTER GETKEYSINSLOT")
_CLUSTER_HELP = Spec("CLUSTER HELP")
_CLUSTER_INFO = Spec("CLUSTER INFO")
_CLUSTER_KEYSLOT = Spec("CLUSTER KEYSLOT")
_CLUSTER_LINKS = Spec("CLUSTER LINKS")
_CLUSTER_MEET = Spec("CLUSTER MEET")
_CLUSTER_MYID = Spec("CLUSTER MYID")
_CLUSTER_MYSHARDID = Spec("CLUSTER MYSHARDID")
_CLUSTER_NODES = Spec("CLUSTER NODES")
_CLUSTER_REPLICAS = Spec("CLUSTER REPLICAS")
_CLUSTER_REPLICATE = Spec("CLUSTER REPLICATE")
_CLUSTER_RESET = Spec("CLUSTER RESET")
_CLUSTER_SAVECONFIG = Spec("CLUSTER SAVECONFIG")
_CLUSTER_SET_CONFIG_EPOCH = Spec("CLUSTER SET-CONFIG-EPOCH")
_CLUSTER_SETSLOT = Spec("CLUSTER SETSLOT")
_CLUSTER_SHARDS = Spec("CLUSTER SHARDS")
_CLUSTER_SLAVES = Spec("CLUSTER SLAVES")
_CLUSTER_SLOTS = Spec("CLUSTER SLOTS")
_COMMAND_COUNT = Spec("COMMAND COUNT")
_COMMAND_DOCS = Spec("COMMAND DOCS")
_COMMAND_GETKEYS = Spec("COMMAND GETKEYS")
_COMMAND_GETKEYSANDFLAGS = Spec("COMMAND GETKEYSANDFLAGS")
_COMMAND_HELP = Spec("COMMAND HELP")
_COMMAND_INFO = Spec("COMMAND INFO")
_COMMAND_LIST = Spec("COMMAND LIST")
_CONFIG_GET = Spec("CONFIG GET", "text_map")
_CONFIG_HELP = Spec("CONFIG HELP")
_CONFIG_RESETSTAT = Spec("CONFIG RESETSTAT")
_CONFIG_REWRITE = Spec("CONFIG REWRITE")
_CONFIG_SET = Spec("CONFIG SET")
_COPY = Spec("COPY", "bool")
_DBSIZE = Spec("DBSIZE")
_DEBUG = Spec("DEBUG")
_DECR = Spec("DECR")
_DECRBY = Spec("DECRBY")
_DELETE = Spec("DEL")
_DELIFEQ = Spec("DELIFEQ", "bool")
_DISCARD = Spec("DISCARD")
_DUMP = Spec("DUMP")
_ECHO = Spec("ECHO")
_EVAL = Spec("EVAL")
_EVALSHA = Spec("EVALSHA")
_EVALSHA_RO = Spec("EVALSHA_RO")
_EVAL_RO = Spec("EVAL_RO")
_EXEC = Spec("EXEC")
_EXISTS = Spec("EXISTS")
_EXPIRE = Spec("EXPIRE", "bool")
_EXPIREAT = Spec("EXPIREAT", "bool")
_EXPIRETIME = Spec("EXPIRETIME")
_FAILOVER = Spec("FAILOVER")
_FCALL = Spec("FCALL")
_FCALL_RO = Spec("FCALL_RO")
_FLUSHALL = Spec("FLUSHALL")
_FLUSHDB = Spec("FLUSHDB")
_FUNCTION_DELETE = Spec("FUNCTION DELETE")
_FUNCTION_DUMP = Spec("FUNCTION DUMP")
_FUNCTION_FLUSH = Spec("FUNCTION FLUSH")
_FUNCTION_HELP = Spec("FUNCTION HELP")
_FUNCTION_KILL = Spec("FUNCTION KILL")
_FUNCTION_LIST = Spec("FUNCTION LIST")
_FUNCTION_LOAD = Spec("FUNCTION LOAD")
_FUNCTION_RESTORE = Spec("FUNCTION RESTORE")
_FUNCTION_STATS = Spec("FUNCTION STATS")
_GEOADD = Spec("GEOADD")
_GEODIST = Spec("GEODIST", "float")
_GEOHASH = Spec("GEOHASH")
_GEOPOS = Spec("GEOPOS")
_GEORADIUS = Spec("GEORADIUS")
_GEORADIUSBYMEMBER = Spec("GEORADIUSBYMEMBER")
_GEORADIUSBYMEMBER_RO = Spec("GEORADIUSBYMEMBER_RO")
_GEORADIUS_RO = Spec("GEORADIUS_RO")
_GEOSEARCH = Spec("GEOSEARCH")
_GEOSEARCHSTORE = Spec("GEOSEARCHSTORE")
_GET = Spec("GET")
_GETBIT = Spec("GETBIT")
_GETDEL = Spec("GETDEL")
_GETEX = Spec("GETEX")
_GETRANGE = Spec("GETRANGE")
_GETSET = Spec("GETSET")
_HDEL = Spec("HDEL")
_HELLO = Spec("HELLO")
_HEXISTS = Spec("HEXISTS", "bool")
_HEXPIRE = Spec("HEXPIRE")
_HEXPIREAT = Spec("HEXPIREAT")
_HEXPIRETIME = Spec("HEXPIRETIME")
_HGET = Spec("HGET")
_HGETALL = Spec("HGETALL", "map")
_HGETDEL = Spec("HGETDEL")
_HGETEX = Spec("HGETEX")
_HINCRBY = Spec("HINCRBY")
_HINCRBYFLOAT = Spec("HINCRBYFLOAT", "float")
_HKEYS = Spec("HKEYS")
_HLEN = Spec("HLEN")
_HMGET = Spec("HMGET")
_HMSET = Spec("HMSET")
_HPERSIST = Spec("HPERSIST")
_HPEXPIRE = Spec("HPEXPIRE")
_HPEXPIREAT = Spec("HPEXPIREAT")
_HPEXPIRETIME = Spec("HPEXPIRETIME")
_HPTTL = Spec("HPTTL")
_HRANDFIELD = Spec("HRANDFIELD")
_HSCAN = Spec("HSCAN", "scan_map")
_HSET = Spec("HSET")
_HSETEX = Spec("HSETEX")
_HSETNX = Spec("HSETNX", "bool")
_HSTRLEN = Spec("HSTRLEN")
_HTTL = Spec("HTTL")
_HVALS = Spec("HVALS")
_INCR = Spec("INCR")
_INCRBY = Spec("INCRBY")
_INCRBYFLOAT = Spec("INCRBYFLOAT", "float")
_INFO = Spec("INFO", "text")
_KEYS = Spec("KEYS")
_LASTSAVE = Spec("LASTSAVE")
_LATENCY_DOCTOR = Spec("LATENCY DOCTOR")
_LATENCY_GRAPH = Spec("LATENCY GRAPH")
_LATENCY_HELP = Spec("LATENCY HELP")
_LATENCY_HISTOGRAM = Spec("LATENCY HISTOGRAM")
_LATENCY_HISTORY = Spec("LATENCY HISTORY")
_LATENCY_LATEST = Spec("LATENCY LATEST")
_LATENCY_RESET = Spec("LATENCY RESET")
_LCS = Spec("LCS")
_LINDEX = Spec("LINDEX")
_LINSERT = Spec("LINSERT")
_LLEN = Spec("LLEN")
_LMOVE = Spec("LMOVE")
_LMPOP = Spec("LMPOP")
_LOLWUT = Spec("LOLWUT")
_LPOP = Spec("LPOP")
_LPOS = Spec("LPOS")
_LPUSH = Spec("LPUSH")
_LPUSHX = Spec("LPUSHX")
_LRANGE = Spec("LRANGE")
_LREM = Spec("LREM")
_LSET = Spec("LSET")
_LTRIM = Spec("LTRIM")
_MEMORY_DOCTOR = Spec("MEMORY DOCTOR")
_MEMORY_HELP = Spec("MEMORY HELP")
_MEMORY_MALLOC_STATS = Spec("MEMORY MALLOC-STATS")
_MEMORY_PURGE = Spec("MEMORY PURGE")
_MEMORY_STATS = Spec("MEMORY STATS")
_MEMORY_USAGE = Spec("MEMORY USAGE")
_MGET = Spec("MGET")
_MIGRATE = Spec("MIGRATE")
_MODULE_HELP = Spec("MODULE HELP")
_MODULE_LIST = Spec("MODULE LIST")
_MODULE_LOAD = Spec("MODULE LOAD")
_MODULE_LOADEX = Spec("MODULE LOADEX")
_MODULE_UNLOAD = Spec("MODULE UNLOAD")
_MOVE = Spec("MOVE", "bool")
_MSET = Spec("MSET")
_MSETNX = Spec("MSETNX", "bool")
_MULTI = Spec("MULTI")
_OBJECT_ENCODING = Spec("OBJECT ENCODING", "text")
_OBJECT_FREQ = Spec("OBJECT FREQ")
_OBJECT_HELP = Spec("OBJECT HELP")
_OBJECT_IDLETIME = Spec("OBJECT IDLETIME")
_OBJECT_REFCOUNT = Spec("OBJECT REFCOUNT")
_PERSIST = Spec("PERSIST", "bool")
_PEXPIRE = Spec("PEXPIRE", "bool")
_PEXPIREAT = Spec("PEXPIREAT", "bool")
_PEXPIRETIME = Spec("PEXPIRETIME")
_PFADD = Spec("PFADD", "bool")
_PFCOUNT = Spec("PFCOUNT")
_PFDEBUG = Spec("PFDEBUG")
_PFMERGE = Spec("PFMERGE")
_PFSELFTEST = Spec("PFSELFTEST")
_PING = Spec("PING")
_PSETEX = Spec("PSETEX")
_PTTL = Spec("PTTL")
_PUBLISH = Spec("PUBLISH")
_PUBSUB_CHANNELS = Spec("PUBSUB CHANNELS")
_PUBSUB_HELP = Spec("PUBSUB HELP")
_PUBSUB_NUMPAT = Spec("PUBSUB NUMPAT")
_PUBSUB_NUMSUB = Spec("PUBSUB NUMSUB")
_PUBSUB_SHARDCHANNELS = Spec("PUBSUB SHARDCHANNELS")
_PUBSUB_SHARDNUMSUB = Spec("PUBSUB SHARDNUMSUB")
_RANDOMKEY = Spec("RANDOMKEY")
_READONLY = Spec("READONLY")
_READWRITE = Spec("READWRITE")
_RENAME = Spec("RENAME")
_RENAMENX = Spec("RENAMENX", "bool")
_REPLICAOF = Spec("REPLICAOF")
_RESTORE = Spec("RESTORE")
_RESTORE_ASKING = Spec("RESTORE-ASKING")
_ROLE = Spec("ROLE")
_RPOP = Spec("RPOP")
_RPOPLPUSH = Spec("RPOPLPUSH")
_RPUSH = Spec("RPUSH")
_RPUSHX = Spec("RPUSHX")
_SADD = Spec("SADD")
_SAVE = Spec("SAVE")
_SCAN = Spec("SCAN", "scan")
_SCARD = Spec("SCARD")
_SCRIPT_EXISTS = Spec("SCRIPT EXISTS", "bools")
_SCRIPT_FLUSH = Spec("SCRIPT FLUSH")
_SCRIPT_HELP = Spec("SCRIPT HELP")
_SCRIPT_KILL = Spec("SCRIPT KILL")
_SCRIPT_LOAD = Spec("SCRIPT LOAD", "text")
_SDIFF = Spec("SDIFF", "set")
_SDIFFSTORE = Spec("SDIFFSTORE")
_SELECT = Spec("SELECT")
_SET = Spec("SET")
_SET_AND_GET = Spec("SET")
_SETBIT = Spec("SETBIT")
_SETEX = Spec("SETEX")
_SETNX = Spec("SETNX", "bool")
_SETRANGE = Spec("SETRANGE")
_SHUTDOWN = Spec("SHUTDOWN")
_SINTER = Spec("SINTER", "set")
_SINTERCARD = Spec("SINTERCARD")
_SINTERSTORE = Spec("SINTERSTORE")
_SISMEMBER = Spec("SISMEMBER", "bool")
_SLAVEOF = Spec("SLAVEOF")
_SLOWLOG_GET = Spec("SLOWLOG GET")
_SLOWLOG_HELP = Spec("SLOWLOG HELP")
_SLOWLOG_LEN = Spec("SLOWLOG LEN")
_SLOWLOG_RESET = Spec("SLOWLOG RESET")
_SMEMBERS = Spec("SMEMBERS", "set")
_SMISMEMBER = Spec("SMISMEMBER", "bools")
_SMOVE = Spec("SMOVE", "bool")
_SORT = Spec("SORT")
_SORT_RO = Spec("SORT_RO")
_SPOP = Spec("SPOP")
_SPUBLISH = Spec("SPUBLISH")
_SRANDMEMBER = Spec("SRANDMEMBER")
_SREM = Spec("SREM")
_SSCAN = Spec("SSCAN", "scan")
_STRLEN = Spec("STRLEN")
_SUBSTR = Spec("SUBSTR")
_SUNION = Spec("SUNION", "set")
_SUNIONSTORE = Spec("SUNIONSTORE")
_SWAPDB = Spec("SWAPDB")
_TIME = Spec("TIME", "tuple")
_TOUCH = Spec("TOUCH")
_TTL = Spec("TTL")
_TYPE = Spec("TYPE")
_UNLINK = Spec("UNLINK")
_UNWATCH = Spec("UNWATCH")
_WAIT = Spec("WAIT")
_WAITAOF = Spec("WAITAOF")
_WATCH = Spec("WATCH")
_XACK = Spec("XACK")
_XADD = Spec("XADD", "text")
_XAUTOCLAIM = Spec("XAUTOCLAIM")
_XCLAIM = Spec("XCLAIM", "entries")
_XDEL = Spec("XDEL")
_XGROUP_CREATE = Spec("XGROUP CREATE")
_XGROUP_CREATECONSUMER = Spec("XGROUP CREATECONSUMER")
_XGROUP_DELCONSUMER = Spec("XGROUP DELCONSUMER")
_XGROUP_DESTROY = Spec("XGROUP DESTROY", "bool")
_XGROUP_HELP = Spec("XGROUP HELP")
_XGROUP_SETID = Spec("XGROUP SETID")
_XINFO_CONSUMERS = Spec("XINFO CONSUMERS")
_XINFO_GROUPS = Spec("XINFO GROUPS")
_XINFO_HELP = Spec("XINFO HELP")
_XINFO_STREAM = Spec("XINFO STREAM")
_XLEN = Spec("XLEN")
_XPENDING = Spec("XPENDING")
_XRANGE = Spec("XRANGE", "entries")
_XREAD = Spec("XREAD", "streams")
_XREADGROUP = Spec("XREADGROUP", "streams")
_XREVRANGE = Spec("XREVRANGE", "entries")
_XSETID = Spec("XSETID")
_XTRIM = Spec("XTRIM")
_ZADD = Spec("ZADD")
_ZADD_INCR = Spec("ZADD", "float")
_ZCARD = Spec("ZCARD")
_ZCOUNT = Spec("ZCOUNT")
_ZDIFF = Spec("ZDIFF")
_ZDIFFSTORE = Spec("ZDIFFSTORE")
_ZINCRBY = Spec("ZINCRBY", "float")
_ZINTER = Spec("ZINTER")
_ZINTERCARD = Spec("ZINTERCARD")
_ZINTERSTORE = Spec("ZINTERSTORE")
_ZLEXCOUNT = Spec("ZLEXCOUNT")
_ZMPOP = Spec("ZMPOP")
_ZMSCORE = Spec("ZMSCORE", "floats")
_ZPOPMAX = Spec("ZPOPMAX", "scored")
_ZPOPMIN = Spec("ZPOPMIN", "scored")
_ZRANDMEMBER = Spec("ZRANDMEMBER")
_ZRANGE = Spec("ZRANGE")
_ZRANGE_WITHSCORES = Spec("ZRANGE", "scored")
_ZRANGEBYLEX = Spec("ZRANGEBYLEX")
_ZRANGEBYSCORE = Spec("ZRANGEBYSCORE")
_ZRANGESTORE = Spec("ZRANGESTORE")
_ZRANK = Spec("ZRANK")
_ZREM = Spec("ZREM")
_ZREMRANGEBYLEX = Spec("ZREMRANGEBYLEX")
_ZREMRANGEBYRANK = Spec("ZREMRANGEBYRANK")
_ZREMRANGEBYSCORE = Spec("ZREMRANGEBYSCORE")
_ZREVRANGE = Spec("ZREVRANGE")
_ZREVRANGEBYLEX = Spec("ZREVRANGEBYLEX")
_ZREVRANGEBYSCORE = Spec("ZREVRANGEBYSCORE")
_ZREVRANK = Spec("ZREVRANK")
_ZSCAN = Spec("ZSCAN", "scan_scored")
_ZSCORE = Spec("ZSCORE", "float")
_ZUNION = Spec("ZUNION")
_ZUNIONSTORE = Spec("ZUNIONSTORE")


class Commands(Generic[T]):
    """The commands that a shared connection takes."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _send(self, spec: Spec, /, *args: Any) -> Call[Any]: ...

    def acl_cat(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_CAT, *args)

    def acl_deluser(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_DELUSER, *args)

    def acl_dryrun(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_DRYRUN, *args)

    def acl_genpass(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_GENPASS, *args)

    def acl_getuser(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_GETUSER, *args)

    def acl_help(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_HELP, *args)

    def acl_list(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_LIST, *args)

    def acl_load(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_LOAD, *args)

    def acl_log(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_LOG, *args)

    def acl_save(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_SAVE, *args)

    def acl_setuser(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_SETUSER, *args)

    def acl_users(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_USERS, *args)

    def acl_whoami(self, *args: Many) -> Call[Any]:
        return self._send(_ACL_WHOAMI, *args)

    def append(self, key: Key, value: Arg) -> Call[int]:
        return self._send(_APPEND, key, value)

    def bgrewriteaof(self, *args: Many) -> Call[Any]:
        return self._send(_BGREWRITEAOF, *args)

    def bgsave(self, *args: Many) -> Call[Any]:
        return self._send(_BGSAVE, *args)

    def bitcount(self, key: Key) -> Call[int]:
        return self._send(_BITCOUNT, key)

    def bitfield(self, *args: Many) -> Call[Any]:
        return self._send(_BITFIELD, *args)

    def bitfield_ro(self, *args: Many) -> Call[Any]:
        return self._send(_BITFIELD_RO, *args)

    def bitop(self, *args: Many) -> Call[Any]:
        return self._send(_BITOP, *args)

    def bitpos(self, *args: Many) -> Call[Any]:
        return self._send(_BITPOS, *args)

    def blmove(self, key: Key, to: Key, take: Side, put: Side, timeout: float) -> Call[T | None]:
        return self._send(_BLMOVE, key, to, take, put, timeout)

    def blmpop(self, *args: Many) -> Call[Any]:
        return self._send(_BLMPOP, *args)

    def blpop(
        self,
        *keys: Key | Sequence[Key] | AbstractSet[Key],
        timeout: float,
    ) -> Call[tuple[T, T] | None]:
        return self._send(_BLPOP, keys, timeout)

    def brpop(
        self,
        *keys: Key | Sequence[Key] | AbstractSet[Key],
        timeout: float,
    ) -> Call[tuple[T, T] | None]:
        return self._send(_BRPOP, keys, timeout)

    def brpoplpush(self, key: Key, to: Key, timeout: float) -> Call[T | None]:
        return self._send(_BRPOPLPUSH, key, to, timeout)

    def bzmpop(self, *args: Many) -> Call[Any]:
        return self._send(_BZMPOP, *args)

    def bzpopmax(
        self,
        *keys: Key | Sequence[Key] | AbstractSet[Key],
        timeout: float,
    ) -> Call[tuple[T, T, float] | None]:
        return self._send(_BZPOPMAX, keys, timeout)

    def bzpopmin(
        self,
        *keys: Key | Sequence[Key] | AbstractSet[Key],
        timeout: float,
    ) -> Call[tuple[T, T, float] | None]:
        return self._send(_BZPOPMIN, keys, timeout)

    def client_getname(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_GETNAME, *args)

    def client_getredir(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_GETREDIR, *args)

    def client_help(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_HELP, *args)

    def client_id(self) -> Call[int]:
        return self._send(_CLIENT_ID)

    def client_info(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_INFO, *args)

    def client_kill(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_KILL, *args)

    def client_list(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_LIST, *args)

    def client_pause(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_PAUSE, *args)

    def client_trackinginfo(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_TRACKINGINFO, *args)

    def client_unblock(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_UNBLOCK, *args)

    def client_unpause(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_UNPAUSE, *args)

    def cluster_addslots(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_ADDSLOTS, *args)

    def cluster_addslotsrange(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_ADDSLOTSRANGE, *args)

    def cluster_bumpepoch(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_BUMPEPOCH, *args)

    def cluster_count_failure_reports(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_COUNT_FAILURE_REPORTS, *args)

    def cluster_countkeysinslot(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_COUNTKEYSINSLOT, *args)

    def cluster_delslots(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_DELSLOTS, *args)

    def cluster_delslotsrange(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_DELSLOTSRANGE, *args)

    def cluster_failover(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_FAILOVER, *args)

    def cluster_flushslots(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_FLUSHSLOTS, *args)

    def cluster_forget(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_FORGET, *args)

    def cluster_getkeysinslot(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_GETKEYSINSLOT, *args)

    def cluster_help(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_HELP, *args)

    def cluster_info(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_INFO, *args)

    def cluster_keyslot(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_KEYSLOT, *args)

    def cluster_links(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_LINKS, *args)

    def cluster_meet(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_MEET, *args)

    def cluster_myid(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_MYID, *args)

    def cluster_myshardid(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_MYSHARDID, *args)

    def cluster_nodes(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_NODES, *args)

    def cluster_replicas(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_REPLICAS, *args)

    def cluster_replicate(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_REPLICATE, *args)

    def cluster_reset(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_RESET, *args)

    def cluster_saveconfig(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_SAVECONFIG, *args)

    def cluster_set_config_epoch(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_SET_CONFIG_EPOCH, *args)

    def cluster_setslot(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_SETSLOT, *args)

    def cluster_shards(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_SHARDS, *args)

    def cluster_slaves(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_SLAVES, *args)

    def cluster_slots(self, *args: Many) -> Call[Any]:
        return self._send(_CLUSTER_SLOTS, *args)

    def command_count(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_COUNT, *args)

    def command_docs(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_DOCS, *args)

    def command_getkeys(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_GETKEYS, *args)

    def command_getkeysandflags(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_GETKEYSANDFLAGS, *args)

    def command_help(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_HELP, *args)

    def command_info(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_INFO, *args)

    def command_list(self, *args: Many) -> Call[Any]:
        return self._send(_COMMAND_LIST, *args)

    def config_get(self, *parameters: Many) -> Call[dict[str, str]]:
        return self._send(_CONFIG_GET, parameters)

    def config_help(self, *args: Many) -> Call[Any]:
        return self._send(_CONFIG_HELP, *args)

    def config_resetstat(self, *args: Many) -> Call[Any]:
        return self._send(_CONFIG_RESETSTAT, *args)

    def config_rewrite(self, *args: Many) -> Call[Any]:
        return self._send(_CONFIG_REWRITE, *args)

    def config_set(self, fields: Mapping[Any, Arg]) -> Call[str]:
        return self._send(_CONFIG_SET, fields)

    def copy(
        self,
        key: Key,
        to: Key,
        *,
        db: int | None = None,
        replace: bool = False,
    ) -> Call[bool]:
        args: list[Any] = [key, to]
        if db is not None:
            args += ["DB", db]
        if replace:
            args.append("REPLACE")
        return self._send(_COPY, *args)

    def dbsize(self) -> Call[int]:
        return self._send(_DBSIZE)

    def debug(self, *args: Many) -> Call[Any]:
        return self._send(_DEBUG, *args)

    def decr(self, key: Key) -> Call[int]:
        return self._send(_DECR, key)

    def decrby(self, key: Key, by: int) -> Call[int]:
        return self._send(_DECRBY, key, by)

    def delete(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_DELETE, keys)

    def delifeq(self, key: Key, value: Arg) -> Call[bool]:
        return self._send(_DELIFEQ, key, value)

    def dump(self, key: Key) -> Call[T | None]:
        return self._send(_DUMP, key)

    def echo(self, message: Arg) -> Call[T]:
        return self._send(_ECHO, message)

    def eval(self, *args: Many) -> Call[Any]:
        return self._send(_EVAL, *args)

    def evalsha(self, *args: Many) -> Call[Any]:
        return self._send(_EVALSHA, *args)

    def evalsha_ro(self, *args: Many) -> Call[Any]:
        return self._send(_EVALSHA_RO, *args)

    def eval_ro(self, *args: Many) -> Call[Any]:
        return self._send(_EVAL_RO, *args)

    def exists(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_EXISTS, keys)

    def expire(
        self,
        key: Key,
        seconds: int,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Call[bool]:
        args: list[Any] = [key, seconds]
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        if gt:
            args.append("GT")
        if lt:
            args.append("LT")
        return self._send(_EXPIRE, *args)

    def expireat(
        self,
        key: Key,
        seconds: int,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Call[bool]:
        args: list[Any] = [key, seconds]
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        if gt:
            args.append("GT")
        if lt:
            args.append("LT")
        return self._send(_EXPIREAT, *args)

    def expiretime(self, key: Key) -> Call[int]:
        return self._send(_EXPIRETIME, key)

    def failover(self, *args: Many) -> Call[Any]:
        return self._send(_FAILOVER, *args)

    def fcall(self, name: str, keys: Sequence[Key], *args: Many) -> Call[Any]:
        return self._send(_FCALL, name, len(keys), keys, args)

    def fcall_ro(self, name: str, keys: Sequence[Key], *args: Many) -> Call[Any]:
        return self._send(_FCALL_RO, name, len(keys), keys, args)

    def flushall(self) -> Call[str]:
        return self._send(_FLUSHALL)

    def flushdb(self) -> Call[str]:
        return self._send(_FLUSHDB)

    def function_delete(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_DELETE, *args)

    def function_dump(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_DUMP, *args)

    def function_flush(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_FLUSH, *args)

    def function_help(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_HELP, *args)

    def function_kill(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_KILL, *args)

    def function_list(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_LIST, *args)

    def function_load(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_LOAD, *args)

    def function_restore(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_RESTORE, *args)

    def function_stats(self, *args: Many) -> Call[Any]:
        return self._send(_FUNCTION_STATS, *args)

    def geoadd(self, key: Key, longitude: float, latitude: float, member: Arg) -> Call[int]:
        return self._send(_GEOADD, key, longitude, latitude, member)

    def geodist(self, key: Key, member: Arg, other: Arg, unit: str = "m") -> Call[float | None]:
        return self._send(_GEODIST, key, member, other, unit)

    def geohash(self, *args: Many) -> Call[Any]:
        return self._send(_GEOHASH, *args)

    def geopos(self, *args: Many) -> Call[Any]:
        return self._send(_GEOPOS, *args)

    def georadius(self, *args: Many) -> Call[Any]:
        return self._send(_GEORADIUS, *args)

    def georadiusbymember(self, *args: Many) -> Call[Any]:
        return self._send(_GEORADIUSBYMEMBER, *args)

    def georadiusbymember_ro(self, *args: Many) -> Call[Any]:
        return self._send(_GEORADIUSBYMEMBER_RO, *args)

    def georadius_ro(self, *args: Many) -> Call[Any]:
        return self._send(_GEORADIUS_RO, *args)

    def geosearch(self, *args: Many) -> Call[Any]:
        return self._send(_GEOSEARCH, *args)

    def geosearchstore(self, *args: Many) -> Call[Any]:
        return self._send(_GEOSEARCHSTORE, *args)

    def get(self, key: Key) -> Call[T | None]:
        return self._send(_GET, key)

    def getbit(self, key: Key, offset: int) -> Call[int]:
        return self._send(_GETBIT, key, offset)

    def getdel(self, key: Key) -> Call[T | None]:
        return self._send(_GETDEL, key)

    def getex(
        self,
        key: Key,
        *,
        ex: int | None = None,
        px: int | None = None,
        exat: int | None = None,
        pxat: int | None = None,
        persist: bool = False,
    ) -> Call[T | None]:
        args: list[Any] = [key]
        if ex is not None:
            args += ["EX", ex]
        if px is not None:
            args += ["PX", px]
        if exat is not None:
            args += ["EXAT", exat]
        if pxat is not None:
            args += ["PXAT", pxat]
        if persist:
            args.append("PERSIST")
        return self._send(_GETEX, *args)

    def getrange(self, key: Key, start: int, end: int) -> Call[T]:
        return self._send(_GETRANGE, key, start, end)

    def getset(self, key: Key, value: Arg) -> Call[T | None]:
        return self._send(_GETSET, key, value)

    def hdel(self, key: Key, *fields: Many) -> Call[int]:
        return self._send(_HDEL, key, fields)

    def hexists(self, key: Key, field: Arg) -> Call[bool]:
        return self._send(_HEXISTS, key, field)

    def hexpire(self, *args: Many) -> Call[Any]:
        return self._send(_HEXPIRE, *args)

    def hexpireat(self, *args: Many) -> Call[Any]:
        return self._send(_HEXPIREAT, *args)

    def hexpiretime(self, *args: Many) -> Call[Any]:
        return self._send(_HEXPIRETIME, *args)

    def hget(self, key: Key, field: Arg) -> Call[T | None]:
        return self._send(_HGET, key, field)

    def hgetall(self, key: Key) -> Call[dict[T, T]]:
        return self._send(_HGETALL, key)

    def hgetdel(self, *args: Many) -> Call[Any]:
        return self._send(_HGETDEL, *args)

    def hgetex(self, *args: Many) -> Call[Any]:
        return self._send(_HGETEX, *args)

    def hincrby(self, key: Key, field: Arg, by: int) -> Call[int]:
        return self._send(_HINCRBY, key, field, by)

    def hincrbyfloat(self, key: Key, field: Arg, by: float) -> Call[float]:
        return self._send(_HINCRBYFLOAT, key, field, by)

    def hkeys(self, key: Key) -> Call[list[T]]:
        return self._send(_HKEYS, key)

    def hlen(self, key: Key) -> Call[int]:
        return self._send(_HLEN, key)

    def hmget(self, key: Key, *fields: Many) -> Call[list[T | None]]:
        return self._send(_HMGET, key, fields)

    def hmset(self, *args: Many) -> Call[Any]:
        return self._send(_HMSET, *args)

    def hpersist(self, *args: Many) -> Call[Any]:
        return self._send(_HPERSIST, *args)

    def hpexpire(self, *args: Many) -> Call[Any]:
        return self._send(_HPEXPIRE, *args)

    def hpexpireat(self, *args: Many) -> Call[Any]:
        return self._send(_HPEXPIREAT, *args)

    def hpexpiretime(self, *args: Many) -> Call[Any]:
        return self._send(_HPEXPIRETIME, *args)

    def hpttl(self, *args: Many) -> Call[Any]:
        return self._send(_HPTTL, *args)

    def hrandfield(self, *args: Many) -> Call[Any]:
        return self._send(_HRANDFIELD, *args)

    def hscan(
        self,
        key: Key,
        cursor: int,
        *,
        match: Key | None = None,
        count: int | None = None,
    ) -> Call[tuple[int, dict[T, T]]]:
        args: list[Any] = [key, cursor]
        if match is not None:
            args += ["MATCH", match]
        if count is not None:
            args += ["COUNT", count]
        return self._send(_HSCAN, *args)

    def hset(self, key: Key, fields: Mapping[Any, Arg]) -> Call[int]:
        return self._send(_HSET, key, fields)

    def hsetex(self, *args: Many) -> Call[Any]:
        return self._send(_HSETEX, *args)

    def hsetnx(self, key: Key, field: Arg, value: Arg) -> Call[bool]:
        return self._send(_HSETNX, key, field, value)

    def hstrlen(self, key: Key, field: Arg) -> Call[int]:
        return self._send(_HSTRLEN, key, field)

    def httl(self, *args: Many) -> Call[Any]:
        return self._send(_HTTL, *args)

    def hvals(self, key: Key) -> Call[list[T]]:
        return self._send(_HVALS, key)

    def incr(self, key: Key) -> Call[int]:
        return self._send(_INCR, key)

    def incrby(self, key: Key, by: int) -> Call[int]:
        return self._send(_INCRBY, key, by)

    def incrbyfloat(self, key: Key, by: float) -> Call[float]:
        return self._send(_INCRBYFLOAT, key, by)

    def info(self, *sections: Many) -> Call[str]:
        return self._send(_INFO, sections)

    def keys(self, pattern: Key) -> Call[list[T]]:
        return self._send(_KEYS, pattern)

    def lastsave(self, *args: Many) -> Call[Any]:
        return self._send(_LASTSAVE, *args)

    def latency_doctor(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_DOCTOR, *args)

    def latency_graph(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_GRAPH, *args)

    def latency_help(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_HELP, *args)

    def latency_histogram(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_HISTOGRAM, *args)

    def latency_history(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_HISTORY, *args)

    def latency_latest(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_LATEST, *args)

    def latency_reset(self, *args: Many) -> Call[Any]:
        return self._send(_LATENCY_RESET, *args)

    def lcs(self, key: Key, other: Key) -> Call[T]:
        return self._send(_LCS, key, other)

    def lindex(self, key: Key, index: int) -> Call[T | None]:
        return self._send(_LINDEX, key, index)

    def linsert(self, key: Key, where: Where, pivot: Arg, value: Arg) -> Call[int]:
        return self._send(_LINSERT, key, where, pivot, value)

    def llen(self, key: Key) -> Call[int]:
        return self._send(_LLEN, key)

    def lmove(self, key: Key, to: Key, take: Side, put: Side) -> Call[T | None]:
        return self._send(_LMOVE, key, to, take, put)

    def lmpop(self, *args: Many) -> Call[Any]:
        return self._send(_LMPOP, *args)

    def lolwut(self, *args: Many) -> Call[Any]:
        return self._send(_LOLWUT, *args)

    def lpop(self, key: Key) -> Call[T | None]:
        return self._send(_LPOP, key)

    def lpos(
        self,
        key: Key,
        value: Arg,
        *,
        rank: int | None = None,
        maxlen: int | None = None,
    ) -> Call[int | None]:
        args: list[Any] = [key, value]
        if rank is not None:
            args += ["RANK", rank]
        if maxlen is not None:
            args += ["MAXLEN", maxlen]
        return self._send(_LPOS, *args)

    def lpush(self, key: Key, *values: Many) -> Call[int]:
        return self._send(_LPUSH, key, values)

    def lpushx(self, key: Key, *values: Many) -> Call[int]:
        return self._send(_LPUSHX, key, values)

    def lrange(self, key: Key, start: int, stop: int) -> Call[list[T]]:
        return self._send(_LRANGE, key, start, stop)

    def lrem(self, key: Key, count: int, value: Arg) -> Call[int]:
        return self._send(_LREM, key, count, value)

    def lset(self, key: Key, index: int, value: Arg) -> Call[str]:
        return self._send(_LSET, key, index, value)

    def ltrim(self, key: Key, start: int, stop: int) -> Call[str]:
        return self._send(_LTRIM, key, start, stop)

    def memory_doctor(self, *args: Many) -> Call[Any]:
        return self._send(_MEMORY_DOCTOR, *args)

    def memory_help(self, *args: Many) -> Call[Any]:
        return self._send(_MEMORY_HELP, *args)

    def memory_malloc_stats(self, *args: Many) -> Call[Any]:
        return self._send(_MEMORY_MALLOC_STATS, *args)

    def memory_purge(self, *args: Many) -> Call[Any]:
        return self._send(_MEMORY_PURGE, *args)

    def memory_stats(self, *args: Many) -> Call[Any]:
        return self._send(_MEMORY_STATS, *args)

    def memory_usage(self, *args: Many) -> Call[Any]:
        return self._send(_MEMORY_USAGE, *args)

    def mget(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[list[T | None]]:
        return self._send(_MGET, keys)

    def migrate(self, *args: Many) -> Call[Any]:
        return self._send(_MIGRATE, *args)

    def module_help(self, *args: Many) -> Call[Any]:
        return self._send(_MODULE_HELP, *args)

    def module_list(self, *args: Many) -> Call[Any]:
        return self._send(_MODULE_LIST, *args)

    def module_load(self, *args: Many) -> Call[Any]:
        return self._send(_MODULE_LOAD, *args)

    def module_loadex(self, *args: Many) -> Call[Any]:
        return self._send(_MODULE_LOADEX, *args)

    def module_unload(self, *args: Many) -> Call[Any]:
        return self._send(_MODULE_UNLOAD, *args)

    def move(self, key: Key, db: int) -> Call[bool]:
        return self._send(_MOVE, key, db)

    def mset(self, fields: Mapping[Any, Arg]) -> Call[str]:
        return self._send(_MSET, fields)

    def msetnx(self, fields: Mapping[Any, Arg]) -> Call[bool]:
        return self._send(_MSETNX, fields)

    def object_encoding(self, key: Key) -> Call[str | None]:
        return self._send(_OBJECT_ENCODING, key)

    def object_freq(self, *args: Many) -> Call[Any]:
        return self._send(_OBJECT_FREQ, *args)

    def object_help(self, *args: Many) -> Call[Any]:
        return self._send(_OBJECT_HELP, *args)

    def object_idletime(self, key: Key) -> Call[int | None]:
        return self._send(_OBJECT_IDLETIME, key)

    def object_refcount(self, key: Key) -> Call[int | None]:
        return self._send(_OBJECT_REFCOUNT, key)

    def persist(self, key: Key) -> Call[bool]:
        return self._send(_PERSIST, key)

    def pexpire(
        self,
        key: Key,
        milliseconds: int,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Call[bool]:
        args: list[Any] = [key, milliseconds]
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        if gt:
            args.append("GT")
        if lt:
            args.append("LT")
        return self._send(_PEXPIRE, *args)

    def pexpireat(
        self,
        key: Key,
        milliseconds: int,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Call[bool]:
        args: list[Any] = [key, milliseconds]
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        if gt:
            args.append("GT")
        if lt:
            args.append("LT")
        return self._send(_PEXPIREAT, *args)

    def pexpiretime(self, key: Key) -> Call[int]:
        return self._send(_PEXPIRETIME, key)

    def pfadd(self, key: Key, *values: Many) -> Call[bool]:
        return self._send(_PFADD, key, values)

    def pfcount(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_PFCOUNT, keys)

    def pfdebug(self, *args: Many) -> Call[Any]:
        return self._send(_PFDEBUG, *args)

    def pfmerge(self, to: Key, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[str]:
        return self._send(_PFMERGE, to, keys)

    def pfselftest(self, *args: Many) -> Call[Any]:
        return self._send(_PFSELFTEST, *args)

    def ping(self) -> Call[str]:
        return self._send(_PING)

    def psetex(self, key: Key, milliseconds: int, value: Arg) -> Call[str]:
        return self._send(_PSETEX, key, milliseconds, value)

    def pttl(self, key: Key) -> Call[int]:
        return self._send(_PTTL, key)

    def publish(self, channel: Key, message: Arg) -> Call[int]:
        return self._send(_PUBLISH, channel, message)

    def pubsub_channels(self) -> Call[list[T]]:
        return self._send(_PUBSUB_CHANNELS)

    def pubsub_help(self, *args: Many) -> Call[Any]:
        return self._send(_PUBSUB_HELP, *args)

    def pubsub_numpat(self, *args: Many) -> Call[Any]:
        return self._send(_PUBSUB_NUMPAT, *args)

    def pubsub_numsub(self, *args: Many) -> Call[Any]:
        return self._send(_PUBSUB_NUMSUB, *args)

    def pubsub_shardchannels(self, *args: Many) -> Call[Any]:
        return self._send(_PUBSUB_SHARDCHANNELS, *args)

    def pubsub_shardnumsub(self, *args: Many) -> Call[Any]:
        return self._send(_PUBSUB_SHARDNUMSUB, *args)

    def randomkey(self) -> Call[T | None]:
        return self._send(_RANDOMKEY)

    def rename(self, key: Key, to: Key) -> Call[str]:
        return self._send(_RENAME, key, to)

    def renamenx(self, key: Key, to: Key) -> Call[bool]:
        return self._send(_RENAMENX, key, to)

    def replicaof(self, *args: Many) -> Call[Any]:
        return self._send(_REPLICAOF, *args)

    def restore(
        self,
        key: Key,
        milliseconds: int,
        value: Arg,
        *,
        replace: bool = False,
        absttl: bool = False,
    ) -> Call[str]:
        args: list[Any] = [key, milliseconds, value]
        if replace:
            args.append("REPLACE")
        if absttl:
            args.append("ABSTTL")
        return self._send(_RESTORE, *args)

    def restore_asking(self, *args: Many) -> Call[Any]:
        return self._send(_RESTORE_ASKING, *args)

    def role(self, *args: Many) -> Call[Any]:
        return self._send(_ROLE, *args)

    def rpop(self, key: Key) -> Call[T | None]:
        return self._send(_RPOP, key)

    def rpoplpush(self, key: Key, to: Key) -> Call[T | None]:
        return self._send(_RPOPLPUSH, key, to)

    def rpush(self, key: Key, *values: Many) -> Call[int]:
        return self._send(_RPUSH, key, values)

    def rpushx(self, key: Key, *values: Many) -> Call[int]:
        return self._send(_RPUSHX, key, values)

    def sadd(self, key: Key, *members: Many) -> Call[int]:
        return self._send(_SADD, key, members)

    def save(self, *args: Many) -> Call[Any]:
        return self._send(_SAVE, *args)

    def scan(
        self,
        cursor: int,
        *,
        match: Key | None = None,
        count: int | None = None,
        type: str | None = None,
    ) -> Call[tuple[int, list[T]]]:
        args: list[Any] = [cursor]
        if match is not None:
            args += ["MATCH", match]
        if count is not None:
            args += ["COUNT", count]
        if type is not None:
            args += ["TYPE", type]
        return self._send(_SCAN, *args)

    def scard(self, key: Key) -> Call[int]:
        return self._send(_SCARD, key)

    def script_exists(self, *hashes: Many) -> Call[list[bool]]:
        return self._send(_SCRIPT_EXISTS, hashes)

    def script_flush(self) -> Call[str]:
        return self._send(_SCRIPT_FLUSH)

    def script_help(self, *args: Many) -> Call[Any]:
        return self._send(_SCRIPT_HELP, *args)

    def script_kill(self, *args: Many) -> Call[Any]:
        return self._send(_SCRIPT_KILL, *args)

    def script_load(self, text: str) -> Call[str]:
        return self._send(_SCRIPT_LOAD, text)

    def sdiff(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[builtins.set[T]]:
        return self._send(_SDIFF, keys)

    def sdiffstore(self, to: Key, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_SDIFFSTORE, to, keys)

    def set(
        self,
        key: Key,
        value: Arg,
        *,
        ex: int | None = None,
        px: int | None = None,
        exat: int | None = None,
        pxat: int | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
    ) -> Call[str | None]:
        args: list[Any] = [key, value]
        if ex is not None:
            args += ["EX", ex]
        if px is not None:
            args += ["PX", px]
        if exat is not None:
            args += ["EXAT", exat]
        if pxat is not None:
            args += ["PXAT", pxat]
        if keepttl:
            args.append("KEEPTTL")
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        return self._send(_SET, *args)

    def set_and_get(
        self,
        key: Key,
        value: Arg,
        *,
        ex: int | None = None,
        px: int | None = None,
        exat: int | None = None,
        pxat: int | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
    ) -> Call[T | None]:
        args: list[Any] = [key, value, "GET"]
        if ex is not None:
            args += ["EX", ex]
        if px is not None:
            args += ["PX", px]
        if exat is not None:
            args += ["EXAT", exat]
        if pxat is not None:
            args += ["PXAT", pxat]
        if keepttl:
            args.append("KEEPTTL")
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        return self._send(_SET_AND_GET, *args)

    def setbit(self, key: Key, offset: int, value: int) -> Call[int]:
        return self._send(_SETBIT, key, offset, value)

    def setex(self, key: Key, seconds: int, value: Arg) -> Call[str]:
        return self._send(_SETEX, key, seconds, value)

    def setnx(self, key: Key, value: Arg) -> Call[bool]:
        return self._send(_SETNX, key, value)

    def setrange(self, key: Key, offset: int, value: Arg) -> Call[int]:
        return self._send(_SETRANGE, key, offset, value)

    def shutdown(self, *args: Many) -> Call[Any]:
        return self._send(_SHUTDOWN, *args)

    def sinter(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[builtins.set[T]]:
        return self._send(_SINTER, keys)

    def sintercard(self, keys: Sequence[Key], *, limit: int | None = None) -> Call[int]:
        args: list[Any] = [len(keys), keys]
        if limit is not None:
            args += ["LIMIT", limit]
        return self._send(_SINTERCARD, *args)

    def sinterstore(self, to: Key, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_SINTERSTORE, to, keys)

    def sismember(self, key: Key, member: Arg) -> Call[bool]:
        return self._send(_SISMEMBER, key, member)

    def slaveof(self, *args: Many) -> Call[Any]:
        return self._send(_SLAVEOF, *args)

    def slowlog_get(self, *args: Many) -> Call[Any]:
        return self._send(_SLOWLOG_GET, *args)

    def slowlog_help(self, *args: Many) -> Call[Any]:
        return self._send(_SLOWLOG_HELP, *args)

    def slowlog_len(self, *args: Many) -> Call[Any]:
        return self._send(_SLOWLOG_LEN, *args)

    def slowlog_reset(self, *args: Many) -> Call[Any]:
        return self._send(_SLOWLOG_RESET, *args)

    def smembers(self, key: Key) -> Call[builtins.set[T]]:
        return self._send(_SMEMBERS, key)

    def smismember(self, key: Key, *members: Many) -> Call[list[bool]]:
        return self._send(_SMISMEMBER, key, members)

    def smove(self, key: Key, to: Key, member: Arg) -> Call[bool]:
        return self._send(_SMOVE, key, to, member)

    def sort(
        self,
        key: Key,
        *,
        by: Key | None = None,
        asc: bool = False,
        desc: bool = False,
        alpha: bool = False,
    ) -> Call[list[T | None]]:
        args: list[Any] = [key]
        if by is not None:
            args += ["BY", by]
        if asc:
            args.append("ASC")
        if desc:
            args.append("DESC")
        if alpha:
            args.append("ALPHA")
        return self._send(_SORT, *args)

    def sort_ro(self, *args: Many) -> Call[Any]:
        return self._send(_SORT_RO, *args)

    def spop(self, key: Key) -> Call[T | None]:
        return self._send(_SPOP, key)

    def spublish(self, channel: Key, message: Arg) -> Call[int]:
        return self._send(_SPUBLISH, channel, message)

    def srandmember(self, key: Key) -> Call[T | None]:
        return self._send(_SRANDMEMBER, key)

    def srem(self, key: Key, *members: Many) -> Call[int]:
        return self._send(_SREM, key, members)

    def sscan(
        self,
        key: Key,
        cursor: int,
        *,
        match: Key | None = None,
        count: int | None = None,
    ) -> Call[tuple[int, list[T]]]:
        args: list[Any] = [key, cursor]
        if match is not None:
            args += ["MATCH", match]
        if count is not None:
            args += ["COUNT", count]
        return self._send(_SSCAN, *args)

    def strlen(self, key: Key) -> Call[int]:
        return self._send(_STRLEN, key)

    def substr(self, *args: Many) -> Call[Any]:
        return self._send(_SUBSTR, *args)

    def sunion(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[builtins.set[T]]:
        return self._send(_SUNION, keys)

    def sunionstore(self, to: Key, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_SUNIONSTORE, to, keys)

    def swapdb(self, *args: Many) -> Call[Any]:
        return self._send(_SWAPDB, *args)

    def time(self) -> Call[tuple[T, T]]:
        return self._send(_TIME)

    def touch(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_TOUCH, keys)

    def ttl(self, key: Key) -> Call[int]:
        return self._send(_TTL, key)

    def type(self, key: Key) -> Call[str]:
        return self._send(_TYPE, key)

    def unlink(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[int]:
        return self._send(_UNLINK, keys)

    def xack(self, key: Key, group: Key, *ids: Many) -> Call[int]:
        return self._send(_XACK, key, group, ids)

    def xadd(
        self,
        key: Key,
        fields: Mapping[Any, Arg],
        id: str = "*",
        *,
        nomkstream: bool = False,
        maxlen: int | None = None,
    ) -> Call[str | None]:
        args: list[Any] = [key]
        if nomkstream:
            args.append("NOMKSTREAM")
        if maxlen is not None:
            args += ["MAXLEN", maxlen]
        args.append(id)
        args.append(fields)
        return self._send(_XADD, *args)

    def xautoclaim(self, *args: Many) -> Call[Any]:
        return self._send(_XAUTOCLAIM, *args)

    def xclaim(
        self,
        key: Key,
        group: Key,
        consumer: Key,
        milliseconds: int,
        *ids: Many,
    ) -> Call[Entries[T]]:
        return self._send(_XCLAIM, key, group, consumer, milliseconds, ids)

    def xdel(self, key: Key, *ids: Many) -> Call[int]:
        return self._send(_XDEL, key, ids)

    def xgroup_create(
        self,
        key: Key,
        group: Key,
        id: str = "$",
        *,
        mkstream: bool = False,
    ) -> Call[str]:
        args: list[Any] = [key, group, id]
        if mkstream:
            args.append("MKSTREAM")
        return self._send(_XGROUP_CREATE, *args)

    def xgroup_createconsumer(self, *args: Many) -> Call[Any]:
        return self._send(_XGROUP_CREATECONSUMER, *args)

    def xgroup_delconsumer(self, *args: Many) -> Call[Any]:
        return self._send(_XGROUP_DELCONSUMER, *args)

    def xgroup_destroy(self, key: Key, group: Key) -> Call[bool]:
        return self._send(_XGROUP_DESTROY, key, group)

    def xgroup_help(self, *args: Many) -> Call[Any]:
        return self._send(_XGROUP_HELP, *args)

    def xgroup_setid(self, *args: Many) -> Call[Any]:
        return self._send(_XGROUP_SETID, *args)

    def xinfo_consumers(self, *args: Many) -> Call[Any]:
        return self._send(_XINFO_CONSUMERS, *args)

    def xinfo_groups(self, *args: Many) -> Call[Any]:
        return self._send(_XINFO_GROUPS, *args)

    def xinfo_help(self, *args: Many) -> Call[Any]:
        return self._send(_XINFO_HELP, *args)

    def xinfo_stream(self, *args: Many) -> Call[Any]:
        return self._send(_XINFO_STREAM, *args)

    def xlen(self, key: Key) -> Call[int]:
        return self._send(_XLEN, key)

    def xpending(self, *args: Many) -> Call[Any]:
        return self._send(_XPENDING, *args)

    def xrange(
        self,
        key: Key,
        start: str = "-",
        end: str = "+",
        *,
        count: int | None = None,
    ) -> Call[Entries[T]]:
        args: list[Any] = [key, start, end]
        if count is not None:
            args += ["COUNT", count]
        return self._send(_XRANGE, *args)

    def xread(
        self,
        streams: Mapping[Any, str],
        *,
        count: int | None = None,
        block: int | None = None,
    ) -> Call[dict[T, Entries[T]] | None]:
        args: list[Any] = []
        if count is not None:
            args += ["COUNT", count]
        if block is not None:
            args += ["BLOCK", block]
        args.append("STREAMS")
        args += [*streams.keys(), *streams.values()]
        return self._send(_XREAD, *args)

    def xreadgroup(
        self,
        group: Key,
        consumer: Key,
        streams: Mapping[Any, str],
        *,
        count: int | None = None,
        block: int | None = None,
        noack: bool = False,
    ) -> Call[dict[T, Entries[T]] | None]:
        args: list[Any] = ["GROUP", group, consumer]
        if count is not None:
            args += ["COUNT", count]
        if block is not None:
            args += ["BLOCK", block]
        if noack:
            args.append("NOACK")
        args.append("STREAMS")
        args += [*streams.keys(), *streams.values()]
        return self._send(_XREADGROUP, *args)

    def xrevrange(
        self,
        key: Key,
        end: str = "+",
        start: str = "-",
        *,
        count: int | None = None,
    ) -> Call[Entries[T]]:
        args: list[Any] = [key, end, start]
        if count is not None:
            args += ["COUNT", count]
        return self._send(_XREVRANGE, *args)

    def xsetid(self, *args: Many) -> Call[Any]:
        return self._send(_XSETID, *args)

    def xtrim(self, key: Key, maxlen: int) -> Call[int]:
        return self._send(_XTRIM, key, "MAXLEN", maxlen)

    def zadd(
        self,
        key: Key,
        scores: Mapping[Any, float],
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
        ch: bool = False,
    ) -> Call[int]:
        args: list[Any] = [key]
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        if gt:
            args.append("GT")
        if lt:
            args.append("LT")
        if ch:
            args.append("CH")
        for member, score in scores.items():
            args += [score, member]
        return self._send(_ZADD, *args)

    def zadd_incr(
        self,
        key: Key,
        score: float,
        member: Arg,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Call[float | None]:
        args: list[Any] = [key]
        if nx:
            args.append("NX")
        if xx:
            args.append("XX")
        if gt:
            args.append("GT")
        if lt:
            args.append("LT")
        args.append("INCR")
        args.append(score)
        args.append(member)
        return self._send(_ZADD_INCR, *args)

    def zcard(self, key: Key) -> Call[int]:
        return self._send(_ZCARD, key)

    def zcount(self, key: Key, min: Bound, max: Bound) -> Call[int]:
        return self._send(_ZCOUNT, key, min, max)

    def zdiff(self, *args: Many) -> Call[Any]:
        return self._send(_ZDIFF, *args)

    def zdiffstore(self, to: Key, keys: Sequence[Key]) -> Call[int]:
        return self._send(_ZDIFFSTORE, to, len(keys), keys)

    def zincrby(self, key: Key, by: float, member: Arg) -> Call[float]:
        return self._send(_ZINCRBY, key, by, member)

    def zinter(self, *args: Many) -> Call[Any]:
        return self._send(_ZINTER, *args)

    def zintercard(self, *args: Many) -> Call[Any]:
        return self._send(_ZINTERCARD, *args)

    def zinterstore(self, to: Key, keys: Sequence[Key]) -> Call[int]:
        return self._send(_ZINTERSTORE, to, len(keys), keys)

    def zlexcount(self, key: Key, min: Key, max: Key) -> Call[int]:
        return self._send(_ZLEXCOUNT, key, min, max)

    def zmpop(self, *args: Many) -> Call[Any]:
        return self._send(_ZMPOP, *args)

    def zmscore(self, key: Key, *members: Many) -> Call[list[float | None]]:
        return self._send(_ZMSCORE, key, members)

    def zpopmax(self, key: Key, count: int = 1) -> Call[list[tuple[T, float]]]:
        return self._send(_ZPOPMAX, key, count)

    def zpopmin(self, key: Key, count: int = 1) -> Call[list[tuple[T, float]]]:
        return self._send(_ZPOPMIN, key, count)

    def zrandmember(self, key: Key) -> Call[T | None]:
        return self._send(_ZRANDMEMBER, key)

    def zrange(
        self,
        key: Key,
        start: Bound,
        stop: Bound,
        *,
        byscore: bool = False,
        bylex: bool = False,
        rev: bool = False,
        limit: tuple[int, int] | None = None,
    ) -> Call[list[T]]:
        args: list[Any] = [key, start, stop]
        if byscore:
            args.append("BYSCORE")
        if bylex:
            args.append("BYLEX")
        if rev:
            args.append("REV")
        if limit is not None:
            args += ["LIMIT", limit]
        return self._send(_ZRANGE, *args)

    def zrange_withscores(
        self,
        key: Key,
        start: Bound,
        stop: Bound,
        *,
        byscore: bool = False,
        rev: bool = False,
        limit: tuple[int, int] | None = None,
    ) -> Call[list[tuple[T, float]]]:
        args: list[Any] = [key, start, stop]
        if byscore:
            args.append("BYSCORE")
        if rev:
            args.append("REV")
        if limit is not None:
            args += ["LIMIT", limit]
        args.append("WITHSCORES")
        return self._send(_ZRANGE_WITHSCORES, *args)

    def zrangebylex(self, *args: Many) -> Call[Any]:
        return self._send(_ZRANGEBYLEX, *args)

    def zrangebyscore(
        self,
        key: Key,
        min: Bound,
        max: Bound,
        *,
        limit: tuple[int, int] | None = None,
    ) -> Call[list[T]]:
        args: list[Any] = [key, min, max]
        if limit is not None:
            args += ["LIMIT", limit]
        return self._send(_ZRANGEBYSCORE, *args)

    def zrangestore(
        self,
        to: Key,
        key: Key,
        start: Bound,
        stop: Bound,
        *,
        byscore: bool = False,
        bylex: bool = False,
        rev: bool = False,
    ) -> Call[int]:
        args: list[Any] = [to, key, start, stop]
        if byscore:
            args.append("BYSCORE")
        if bylex:
            args.append("BYLEX")
        if rev:
            args.append("REV")
        return self._send(_ZRANGESTORE, *args)

    def zrank(self, key: Key, member: Arg) -> Call[int | None]:
        return self._send(_ZRANK, key, member)

    def zrem(self, key: Key, *members: Many) -> Call[int]:
        return self._send(_ZREM, key, members)

    def zremrangebylex(self, key: Key, min: Key, max: Key) -> Call[int]:
        return self._send(_ZREMRANGEBYLEX, key, min, max)

    def zremrangebyrank(self, key: Key, start: int, stop: int) -> Call[int]:
        return self._send(_ZREMRANGEBYRANK, key, start, stop)

    def zremrangebyscore(self, key: Key, min: Bound, max: Bound) -> Call[int]:
        return self._send(_ZREMRANGEBYSCORE, key, min, max)

    def zrevrange(self, key: Key, start: int, stop: int) -> Call[list[T]]:
        return self._send(_ZREVRANGE, key, start, stop)

    def zrevrangebylex(self, *args: Many) -> Call[Any]:
        return self._send(_ZREVRANGEBYLEX, *args)

    def zrevrangebyscore(self, *args: Many) -> Call[Any]:
        return self._send(_ZREVRANGEBYSCORE, *args)

    def zrevrank(self, key: Key, member: Arg) -> Call[int | None]:
        return self._send(_ZREVRANK, key, member)

    def zscan(
        self,
        key: Key,
        cursor: int,
        *,
        match: Key | None = None,
        count: int | None = None,
    ) -> Call[tuple[int, list[tuple[T, float]]]]:
        args: list[Any] = [key, cursor]
        if match is not None:
            args += ["MATCH", match]
        if count is not None:
            args += ["COUNT", count]
        return self._send(_ZSCAN, *args)

    def zscore(self, key: Key, member: Arg) -> Call[float | None]:
        return self._send(_ZSCORE, key, member)

    def zunion(self, *args: Many) -> Call[Any]:
        return self._send(_ZUNION, *args)

    def zunionstore(self, to: Key, keys: Sequence[Key]) -> Call[int]:
        return self._send(_ZUNIONSTORE, to, len(keys), keys)


class SessionCommands(Commands[T]):
    """Those that change a connection, too."""

    __slots__ = ()

    def asking(self, *args: Many) -> Call[Any]:
        return self._send(_ASKING, *args)

    def auth(self, *args: Many) -> Call[Any]:
        return self._send(_AUTH, *args)

    def client_caching(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_CACHING, *args)

    def client_capa(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_CAPA, *args)

    def client_no_evict(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_NO_EVICT, *args)

    def client_no_touch(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_NO_TOUCH, *args)

    def client_setinfo(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_SETINFO, *args)

    def client_setname(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_SETNAME, *args)

    def client_tracking(self, *args: Many) -> Call[Any]:
        return self._send(_CLIENT_TRACKING, *args)

    def discard(self, *args: Many) -> Call[Any]:
        return self._send(_DISCARD, *args)

    def exec(self, *args: Many) -> Call[Any]:
        return self._send(_EXEC, *args)

    def hello(self, *args: Many) -> Call[Any]:
        return self._send(_HELLO, *args)

    def multi(self, *args: Many) -> Call[Any]:
        return self._send(_MULTI, *args)

    def readonly(self, *args: Many) -> Call[Any]:
        return self._send(_READONLY, *args)

    def readwrite(self, *args: Many) -> Call[Any]:
        return self._send(_READWRITE, *args)

    def select(self, *args: Many) -> Call[Any]:
        return self._send(_SELECT, *args)

    def unwatch(self) -> Call[str]:
        return self._send(_UNWATCH)

    def wait(self, replicas: int, milliseconds: int) -> Call[int]:
        return self._send(_WAIT, replicas, milliseconds)

    def waitaof(self, *args: Many) -> Call[Any]:
        return self._send(_WAITAOF, *args)

    def watch(self, *keys: Key | Sequence[Key] | AbstractSet[Key]) -> Call[str]:
        return self._send(_WATCH, keys)
