# A binding of libonetrip for Ruby, by Fiddle of the standard library. cases.rb shows that it works.
require 'fiddle'
require 'fiddle/import'

module Onetrip
  extend Fiddle::Importer
  dlload ENV.fetch('ONETRIP_LIBRARY', 'libonetrip.so.0')
  {
    ot_pg_connect: 'char*, size_t, int, void*, void*',
    ot_close: 'void*, int, void*', ot_query: 'void*, char*, size_t, void*, size_t, void*, void*',
    ot_session_query: 'void*, char*, size_t, void*, size_t, void*, void*', ot_wait: 'void*, int, void*, void*',
    ot_pipe_begin: 'void*, void*, void*', ot_pipe_query: 'void*, char*, size_t, void*, size_t',
    ot_pipe_send: 'void*, void*', ot_session_open: 'void*, void*',
    ot_begin: 'void*, void*', ot_commit: 'void*, void*', ot_rollback: 'void*, void*',
    ot_part: 'void*, size_t, void*',
    ot_column_type: 'void*, size_t, void*', ot_column_name: 'void*, size_t, void*',
    ot_get_text: 'void*, size_t, size_t, void*'
  }.each { |name, args| extern "int #{name}(#{args})" }
  %w[ot_rows ot_columns ot_affected ot_parts].each { |name| extern "size_t #{name}(void*)" }
  %w[ot_session_close ot_result_free].each { |name| extern "void #{name}(void*)" }
  NTS = 2**(8 * Fiddle::SIZEOF_SIZE_T) - 1
  ERROR_SIZE = 20 + 32 + 1024 + 512 + 512 + 64
  OUTCOMES = [nil, 'NotSent', 'Rejected', 'Applied', 'Unknown'].freeze

  # What failed, and whether it took effect.
  class Error < StandardError
    attr_reader :code, :outcome, :statement

    def initialize(bytes)
      _, _, outcome, @statement = bytes.unpack('L<l<l<L<')
      @code, @outcome = bytes[20, 32].unpack1('Z*'), OUTCOMES[outcome]
      super(bytes[52, 1024].unpack1('Z*').force_encoding('UTF-8'))
    end
  end

  module_function

  # A place for a handle; what the block wrote there.
  def out(size = Fiddle::SIZEOF_VOIDP)
    place = Fiddle::Pointer.malloc(size, Fiddle::RUBY_FREE)
    place[0, size] = "\0" * size
    status = yield place
    raise "status #{status}" unless status.zero?
    place
  end

  def handle(&block) = out(&block).ptr

  def failing
    error = [ERROR_SIZE].pack('L<').ljust(ERROR_SIZE, "\0")
    raise Error, error unless yield(error).zero?
  end

  def text(of = nil)
    place = of || out(16) { |it| yield it }
    at, len = place[0, 16].unpack('Q<Q<')
    len.zero? ? +'' : Fiddle::Pointer.new(at)[0, len].force_encoding('UTF-8')
  end

  # Parameters as C has them. The texts stay as long as what is returned.
  def values(list)
    texts = []
    packed = list.map do |value|
      kind, number, real, bytes = case value
                                  when nil then [0, 0, 0.0, '']
                                  when Integer then [1, value, 0.0, '']
                                  when Float then [2, 0, value, '']
                                  when true, false then [3, value ? 1 : 0, 0.0, '']
                                  else [4, 0, 0.0, value]
                                  end
      texts << bytes
      [kind, 0, number, real, Fiddle::Pointer[bytes].to_i, bytes.bytesize].pack('l<l<q<dQ<Q<')
    end
    [packed.join, list.size, texts]
  end

  def connect(url)
    handle { |to| failing { |error| ot_pg_connect(url, NTS, 10_000, to, error) } || 0 }
  end

  def submit(function, on, sql, parameters)
    packed, count, = kept = values(parameters)
    call = handle { |to| send(function, on, sql, sql.bytesize, packed, count, nil, to) }
    [call, kept].first
  end

  def wait(call)
    result = Fiddle::Pointer.malloc(8, Fiddle::RUBY_FREE)
    failing { |error| ot_wait(call, -1, result, error) }
    result.ptr
  end

  # Rows as Ruby has them, their columns, and the count.
  def read(result)
    columns = Array.new(ot_columns(result)) do |at|
      [text { |to| ot_column_name(result, at, to) }, out(4) { |to| ot_column_type(result, at, to) }[0, 4].unpack1('L<')]
    end
    rows = Array.new(ot_rows(result)) do |row|
      columns.each_with_index.map do |(_, type), at|
        place = Fiddle::Pointer.malloc(16, Fiddle::RUBY_FREE)
        status = ot_get_text(result, row, at, place)
        next nil if status == 11
        raise "status #{status}" unless status.zero?
        value = text(place)
        case type
        when 20, 21, 23 then value.to_i
        when 16 then value == 't'
        else value
        end
      end
    end
    { 'rows' => rows, 'columns' => columns.map(&:first), 'count' => ot_affected(result) }
  end

end
