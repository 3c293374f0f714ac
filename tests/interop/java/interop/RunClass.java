package interop;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.Optional;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs one test class, or the methods of it that are named, and prints a line for each test on standard output:
 * "result", then passed, failed or skipped, the test's name, the milliseconds it took, and why, between tabs.
 *
 * <p>Ends with 0 if it came to the end, whatever the tests said.
 */
public final class RunClass implements TestExecutionListener {
  private static final int REASON_CHARACTERS_MAX = 2000;

  private long startedMillis;

  private RunClass() {}

  /** {@code arguments}: the class, and methods of it; all of them by default. */
  public static void main(String[] arguments) {
    DiscoverySelector[] selected =
        arguments.length == 1
            ? new DiscoverySelector[] {selectClass(arguments[0])}
            : Arrays.stream(arguments).skip(1).map(m -> selectMethod(arguments[0], m)).toArray(DiscoverySelector[]::new);
    LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request().selectors(selected).build();
    Launcher launcher = LauncherFactory.create();
    launcher.execute(request, new RunClass());
    // NameNodes leave threads behind that would keep the process for ever.
    System.out.flush();
    System.exit(0);
  }

  @Override
  public void executionStarted(TestIdentifier test) {
    startedMillis = System.currentTimeMillis();
    if (test.isTest()) {
      System.out.println("begins\t" + test.getDisplayName());
    }
  }

  @Override
  public void executionSkipped(TestIdentifier test, String reason) {
    tell("skipped", test, reason);
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    Optional<Throwable> error = result.getThrowable();
    if (!test.isTest() && error.isEmpty()) {
      return;
    }
    switch (result.getStatus()) {
      case SUCCESSFUL -> tell("passed", test, "");
      case ABORTED -> tell("skipped", test, error.map(Throwable::getMessage).orElse(""));
      case FAILED -> tell("failed", test, error.map(RunClass::trace).orElse(""));
    }
  }

  private void tell(String how, TestIdentifier test, String why) {
    long tookMillis = System.currentTimeMillis() - startedMillis;
    String reason = why == null ? "" : why.substring(0, Math.min(why.length(), REASON_CHARACTERS_MAX));
    String oneLine = reason.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", " ");
    System.out.println(String.join("\t", "result", how, test.getDisplayName(), Long.toString(tookMillis), oneLine));
  }

  private static String trace(Throwable error) {
    StringWriter text = new StringWriter();
    error.printStackTrace(new PrintWriter(text));
    return text.toString();
  }
}
