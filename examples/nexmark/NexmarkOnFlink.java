import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * Runs a script of Flink SQL in one JVM, statements separated by ";\n". The last one is an INSERT; prints the seconds
 * that its job takes, the processor seconds of the JVM so far and the peak of its memory as a line of JSON. Arguments:
 * the script, then settings as key=value.
 */
public final class NexmarkOnFlink {

    /** The function of q14, as the benchmark's own in Java. */
    public static final class CountChar extends ScalarFunction {
        public long eval(String text, String character) {
            long count = 0;
            if (text != null) {
                char wanted = character.charAt(0);
                for (int i = 0; i < text.length(); i++) {
                    count += text.charAt(i) == wanted ? 1 : 0;
                }
            }
            return count;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.setString(pair[0], pair[1]);
        }
        TableEnvironment tables = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
        tables.createTemporarySystemFunction("count_char", CountChar.class);
        String[] statements = Files.readString(Path.of(arguments[0])).strip().split(";\n");
        for (int i = 0; i < statements.length - 1; i++) {
            tables.executeSql(statements[i]);
        }
        long start = System.nanoTime();
        tables.executeSql(statements[statements.length - 1]).await();
        double seconds = (System.nanoTime() - start) / 1e9;
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        String status = Files.readString(Path.of("/proc/self/status"));
        long peak = Long.parseLong(status.replaceAll("(?s).*VmHWM:\\s*(\\d+) kB.*", "$1")) / 1024;
        System.out.printf("{\"seconds\": %.3f, \"processor\": %.3f, \"peak_mb\": %d}%n",
                seconds, system.getProcessCpuTime() / 1e9, peak);
        System.exit(0);
    }
}
