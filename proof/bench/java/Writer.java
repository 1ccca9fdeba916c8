import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

/**
 * A writer on pgjdbc for the row failover_pause: it writes a row every few milliseconds, connects
 * anew when that fails, and prints the time and the server's port when the port is another one.
 */
class Writer {
    public static void main(String[] arguments) throws InterruptedException {
        Connection connection = null;
        int last = 0;
        for (;; Thread.sleep(5)) {
            try {
                if (connection == null) connection = DriverManager.getConnection(arguments[0]);
                try (Statement statement = connection.createStatement();
                        ResultSet rows = statement.executeQuery(arguments[1])) {
                    rows.next();
                    int port = rows.getInt(1);
                    long now = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
                    if (port != last) System.out.println(now + " " + port);
                    last = port;
                }
            } catch (SQLException error) {
                try {
                    if (connection != null) connection.close();
                } catch (SQLException again) {
                    // It is lost either way.
                }
                connection = null;
            }
        }
    }
}
