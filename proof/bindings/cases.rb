# The conformance cases of PostgreSQL, by the binding of this folder. Run by proof/bindings/run.
require 'json'
require_relative 'onetrip'

# Runs them.
class Runner
  def initialize(url) = (@db, @number, @failed = Onetrip.connect(url), 0, [])

  def run(statement, on = @db, table = @table)
    sql = (statement.is_a?(String) ? statement : statement['text']).gsub('{t}', table)
    function = on == @db ? :ot_query : :ot_session_query
    Onetrip.submit(function, on, sql, statement.is_a?(Hash) ? statement['parameters'] || [] : [])
  end

  def check(expected, call = run(expected))
    result = Onetrip.wait(call)
    raise "no error: #{expected}" if expected.is_a?(Hash) && expected['error']
    same(expected, result) if expected.is_a?(Hash)
    Onetrip.ot_result_free(result)
  rescue Onetrip::Error => e
    fails(expected.is_a?(Hash) ? expected['error'] : nil, e)
  end

  def fails(wanted, error)
    raise "#{error.code}: #{error.message}" if wanted.nil?
    got = { 'sqlstate' => error.code, 'outcome' => error.outcome }
    wanted = wanted.slice('sqlstate', 'outcome').reject { |_, value| value == 'any' }
    wanted.each { |key, value| raise "#{key} is #{got[key]}, not #{value}" if got[key] != value }
  end

  def same(expected, result)
    got = Onetrip.read(result)
    expected.slice('rows', 'columns', 'count').each { |key, value| raise "#{key}: #{got[key]}, not #{value}" if got[key] != value }
  end

  def each_case(file, rounds = 1)
    cases = JSON.parse(File.read(File.join(__dir__, '../conformance', file)))['cases']
    cases.product((0...rounds).to_a).each do |one, round|
      @table = "ruby_#{@number += 1}"
      (one['setup'] || []).each { |sql| check(sql) }
      yield one, round
      (one['then'] || []).each { |statement| check(statement) }
    rescue StandardError => e
      @failed << "#{file}: #{one['name']}: #{e.message}"
    end
    puts "ruby: #{file}: #{cases.size} cases"
  end

  def in_session
    session = Onetrip.handle { |to| Onetrip.ot_session_open(@db, to) }
    yield session
  ensure
    Onetrip.ot_session_close(session)
  end

  def statements
    each_case('postgres_statements.json', 2) do |one, round|
      next one['statements'].each { |it| check(it) } if round.zero?
      in_session { |session| one['statements'].map { |it| [it, run(it, session)] }.each { |it, call| check(it, call) } }
    end
  end

  def pipelines
    each_case('postgres_pipelines.json') do |one, _|
      pipe = Onetrip.handle { |to| Onetrip.ot_pipe_begin(@db, nil, to) }
      one['statements'].each do |it|
        packed, count, = kept = Onetrip.values(it['parameters'] || [])
        sql = it['text'].gsub('{t}', @table)
        Onetrip.ot_pipe_query(pipe, sql, sql.bytesize, packed, count).zero? && kept or raise 'refused'
      end
      result = Onetrip.wait(Onetrip.handle { |to| Onetrip.ot_pipe_send(pipe, to) })
      raise 'no error' if one['error']
      one['statements'].each_with_index { |it, at| same(it, Onetrip.handle { |to| Onetrip.ot_part(result, at, to) }) }
    rescue Onetrip::Error => e
      fails(one['error'], e)
    end
  end

  def transactions
    isolations = %w[read_uncommitted read_committed repeatable_read serializable]
    each_case('postgres_transactions.json') do |one, _|
      in_session do |session|
        begins = one['begin']
        isolation = begins['isolation'] ? isolations.index(begins['isolation'].tr(' ', '_')) + 1 : 0
        modes = [16, isolation, { nil => 0, true => 1, false => 2 }[begins['read_only']], 0].pack('L<l<l<l<')
        Onetrip.ot_begin(session, modes)
        one['statements'].each { |it| check(it, run(it, session)) }
        ends = one['end'].is_a?(Hash) ? 'commit' : one['end']
        check({ 'error' => one['end'].is_a?(Hash) ? one['end']['commit'] : nil },
              Onetrip.handle { |to| Onetrip.send("ot_#{ends}", session, to) })
      end
    end
  end

  def done
    Onetrip.ot_close(@db, 10_000, nil)
    @failed.each { |it| warn it }
    exit(@failed.empty? ? 0 : 1)
  end
end

runner = Runner.new(ARGV[0])
%i[statements pipelines transactions].each { |it| runner.public_send(it) }
runner.done
