"""Carries out the plan of how to come to a server: has the sockets, TLS, the clock and the errors.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING

from . import _native
from ._config import Endpoint
from ._tls import binding_of, context_of
from ._wire import Answer, Wire
from ._within import within
from .errors import Error, _make

if TYPE_CHECKING:
    from ._host import Host

CLOSED = "the server closed the connection"
TERMINATE = b"X\0\0\0\4"
SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class Refused(Exception):
    """An attempt came to nothing. ``fault`` is the plan's word for whose it was."""

    def __init__(self, fault: str, error: Error, permanent: bool = False) -> None:
        super().__init__(error)
        self.fault, self.error, self.permanent = fault, error, permanent
        #: To which server and address it went, and whether with TLS.
        self.way: tuple[Endpoint, str, bool] | None = None


class Opening:
    """One connection on its way."""

    #: Whether it looks for another primary, and serves nobody.
    scouts = False

    def __init__(self, host: Host, number: int) -> None:
        self.host, self.number = host, number
        self.config, self.loop = host.config, host.loop
        self.plan = self.config.plan(host.lineage, self.scouts)
        self.endpoint = self.config.endpoints[0]
        self.address: str = ""
        self.addresses: list[str] = []
        self.wire: Wire | None = None
        self.transport: asyncio.Transport | None = None
        #: The host says here what the server reported of itself, or why it refused the login.
        self.login: asyncio.Future[dict[str, str]] | None = None
        self.secure = self.asks_for_tls = False

    async def run(self) -> None:
        """Until it is there, or all has failed."""
        errors: list[Refused] = []
        while True:
            action, place, address = self.plan.action()
            if action == "done":
                return await self.arrived()
            if action == "failed":
                return self._give_up(errors)
            try:
                await within(self._do(action, place, address), self.plan.left())
            except (asyncio.TimeoutError, TimeoutError):
                seconds = self.config.said("connect_timeout")
                message = f"{self.endpoint} did not answer within {seconds} s (connect_timeout)"
                made = _make("connect_failed", "NotSent", message, None)
                self._failed(errors, Refused("late", made))
            except Refused as refused:
                self._failed(errors, refused)
            except (OSError, ssl.SSLError) as error:
                faults = {"dial": "unreachable", "tls": "handshake"}
                message = f"{self.endpoint} can't be reached: {error}"
                made = _make("connect_failed", "NotSent", message, None, error)
                self._failed(errors, Refused(faults.get(action, "server"), made))

    async def arrived(self) -> None:
        """The server will do."""
        await self.host.prepare(self.number)
        if not self.host.core.opened(self.number):
            # It was lost meanwhile: the pool has to hear of it.
            self.leave()
            text = f"{self.endpoint} closed the connection"
            made = _make("connect_failed", "NotSent", text, None)
            self.host.open_failed(self.number, made, False)

    async def _do(self, action: str, place: int, address: int) -> None:
        if action == "resolve":
            self.endpoint = self.config.endpoints[place]
            found = await self.loop.getaddrinfo(
                self.endpoint.host, self.endpoint.port, type=socket.SOCK_STREAM
            )
            self.addresses = [str(info[4][0]) for info in found]
            self.plan.resolved(len(self.addresses))
        elif action == "dial":
            await self._dial(self.config.endpoints[place], address)
        elif action == "ask":
            await self._ask()
        elif action == "tls":
            await self._secure()
        elif action == "identify":
            await self._identify()
        else:
            await self._log_in()

    async def _dial(self, endpoint: Endpoint, address: int) -> None:
        self.leave()
        self.endpoint, self.secure, self.asks_for_tls = endpoint, False, False
        wire = Wire(self.host.core, self.number)
        if endpoint.letter == "s":
            self.address = endpoint.host
            transport, _ = await self.loop.create_unix_connection(lambda: wire, endpoint.path)
        else:
            is_name = endpoint.letter == "n"
            given = endpoint.address or endpoint.host
            self.address = self.addresses[address] if is_name else given
            transport, _ = await self.loop.create_connection(
                lambda: wire, self.address, endpoint.port
            )
        self.wire, self.transport = wire, transport
        self._check_open()
        if endpoint.letter != "s":
            self._keep_alive(transport)
        self.plan.connected()

    def _check_open(self) -> None:
        """One that has ended is not touched: uvloop's raises a RuntimeError, or waits for ever."""
        if self.wire is None or self.wire.transport is None:
            raise ConnectionResetError(CLOSED)

    def _keep_alive(self, transport: asyncio.BaseTransport) -> None:
        """What the kernel watches of a line."""
        of = transport.get_extra_info("socket")
        of.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.config.is_on("keepalives"):
            return
        of.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = {
            "TCP_KEEPIDLE": "keepalives_idle",
            "TCP_KEEPINTVL": "keepalives_interval",
            "TCP_KEEPCNT": "keepalives_count",
            "TCP_USER_TIMEOUT": "tcp_user_timeout",
        }
        for option, name in options.items():
            if hasattr(socket, option) and (value := int(self.config.said(name))) > 0:
                of.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    async def _ask(self) -> None:
        assert self.wire is not None and self.transport is not None
        self._check_open()
        self.asks_for_tls = True
        answer = Answer(self.loop)
        self.wire.ask(answer)
        self._stay()
        self.transport.write(SSL_REQUEST)
        said = await answer.future
        if said is None:
            raise ConnectionResetError(CLOSED)
        self._refuse_if(self.plan.answered(said[0], len(said) > 1))

    def _stay(self) -> None:
        """A transport of uvloop that has ended raises a RuntimeError where it is used."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the server closed the connection")

    async def _secure(self) -> None:
        assert self.wire is not None and self.transport is not None
        self._stay()
        try:
            context = context_of(self.config)
        except (OSError, ValueError) as error:
            # The files of this side are the same for all servers.
            made = _make("connect_failed", "NotSent", f"TLS can't be set up: {error}", None, error)
            raise Refused("ours", made, True) from error
        self._check_open()
        # A name that is not sent is not checked either: `Config` refuses to do one without the
        # other.
        is_sent = self.config.is_on("sslsni") or context.check_hostname
        of = self.endpoint
        name = (of.address if of.host.startswith("/") else of.host) if is_sent else None
        transport = await self.loop.start_tls(
            self.transport, self.wire, context, server_hostname=name
        )
        if transport is None:
            raise ConnectionResetError(CLOSED)
        self.transport = transport
        self.wire.connection_made(transport)
        self.secure = context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
        self.plan.secured()

    async def _log_in(self) -> None:
        assert self.wire is not None and self.transport is not None
        of = self.transport.get_extra_info("ssl_object")
        binding = binding_of(of.getpeercert(binary_form=True)) if of is not None else None
        password = await self.host.password(self.endpoint)
        settings = self.config.of_engine(password, self.address, self.secure, binding)
        self.login = self.loop.create_future()
        self.wire.log_in(settings, os.urandom(18))
        said = await self.login
        self._refuse_if(self.plan.logged_in(said))
        self.host.parameters = said

    async def _identify(self) -> None:
        core = self.host.core
        core.lend(self.number)
        row: tuple[str, str, str] | None = None
        try:
            rows = await _native.Scope(core, self.number).fetch(_native.Lineage.QUESTION)
            row = (rows[0][0], rows[0][1], rows[0][2])
        except Error:
            # A server that does not say is taken as it is, if it is still there.
            self._stay()
        core.vouch(self.number)
        refusal = self.plan.identified(row)
        if row is not None and refusal is None:
            self.host.identified(self.number, row)
        # One that was refused may have taught something, too.
        self.host.close_former()
        self._refuse_if(refusal)

    def refused(
        self, text: str, fields: dict[str, str] | None = None, is_final: bool = False
    ) -> None:
        """The login failed: the server says so, or this side. ``is_final``: no other attempt can fare
        better, or the server had taken the login before it said so.
        """
        if self.login is None or self.login.done():
            return
        if fields is None:
            error = _make("connect_failed", "NotSent", f"the login at {self.endpoint} failed: {text}", None)
            self.login.set_exception(Refused("server", error, is_final))
        else:
            error = _make("server", "NotSent", "", fields)
            permanent = not _native.is_mendable(fields.get("C", ""), fields.get("M", ""))
            fault = "session" if is_final else "login"
            self.login.set_exception(Refused(fault, error, permanent))

    def _refuse_if(self, refusal: tuple[str, str] | None) -> None:
        if refusal is not None:
            _, text = refusal
            error = _make("connect_failed", "NotSent", f"{self.endpoint}{text}", None)
            raise Refused("server", error)

    def _failed(self, errors: list[Refused], refused: Refused) -> None:
        refused.way = (self.endpoint, self.address, self.asks_for_tls)
        errors.append(refused)
        self.leave()
        is_told = refused.fault in ("login", "session")
        code = refused.error.code.ljust(5)[:5] if is_told else ""
        text = str(refused.error)
        several = len(self.config.endpoints) > 1 and not text.startswith(str(self.endpoint))
        self.plan.failed(refused.fault, code, f"{self.endpoint}: {text}" if several else text)

    def given_up(self) -> None:
        """Nobody wants it any more: nothing else is tried."""
        self.plan.give_up()

    def leave(self) -> None:
        """What there was of it is of no use any more."""
        if self.wire is not None:
            self.wire.unbind()
        if self.transport is not None:
            self.transport.abort()
        self.wire = self.transport = None

    def _give_up(self, errors: list[Refused]) -> None:
        self.leave()
        verdict = self.plan.verdict()
        if verdict is None:
            text = f"nobody waits for a connection to {self.endpoint} any more"
            made = _make("connect_failed", "NotSent", text, None)
            return self.host.open_failed(self.number, made, True)
        place, text, is_of_many, may_pass = verdict
        told = errors[place]
        error = told.error
        if text != str(error):
            # The code is that of the host whose error it is.
            fields = {**error.fields, "M": text} if error.fields else None
            error = _make(error.code, "NotSent", "" if fields else text, fields, error)
            error._tried = _both_ways(errors)  # type: ignore[attr-defined]
        is_final = told.permanent and not is_of_many
        self.host.open_failed(self.number, error, is_final, may_pass)


def _both_ways(errors: list[Refused]) -> tuple[Error, Error] | None:
    """The last two, if they are of one server, with TLS and without."""
    first, last = errors[-2:] if len(errors) > 1 else errors * 2
    if first.way is None or last.way is None or first.way[:2] != last.way[:2]:
        return None
    return None if first.way == last.way else (first.error, last.error)


class Scout(Opening):
    """Looks for another primary while the server of the client is silent. What it has met stands in
    the lineage; the pool opens its own connections."""

    scouts = True

    async def arrived(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(TERMINATE)
            self.transport.close()
