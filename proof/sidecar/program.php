<?php
// PDO as it comes: five statements, three of them in a transaction.
$url = parse_url(getenv('DATABASE_URL'));
$db = new PDO(
    "pgsql:host={$url['host']};port={$url['port']};dbname=" . substr($url['path'], 1),
    $url['user'],
    urldecode($url['pass'])
);
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);

function run(PDO $db, string $sql, int $key): void
{
    $statement = $db->prepare($sql);
    $statement->execute([$key]);
    $statement->fetchAll();
}

for ($unit = 0; $unit < (int) $argv[1]; $unit++) {
    run($db, 'select v from kv where k = ?', 1);
    run($db, 'select v from kv where k = ?', 2);
    $db->beginTransaction();
    for ($key = 1; $key <= 3; $key++) {
        run($db, 'update kv set v = v + 1 where k = ?', $key);
    }
    $db->commit();
}
