// Runs the tests: each public method of these classes is a test. Exit status 1: a test has failed.
// SPDX-License-Identifier: Apache-2.0
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;

final class Tests {
    public static void main(String[] arguments) throws Exception {
        int failed = 0;
        for (Class<?> tests : new Class<?>[] {CodecsTest.class, ClientTest.class, StopTest.class, FailureTest.class, KilledTest.class,
                GrowthTest.class, ExampleTest.class}) {
            Method[] methods = tests.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (java.lang.reflect.Modifier.isPublic(method.getModifiers()) && !method.getName().equals("main")) {
                    failed += run(tests, method);
                }
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private static int run(Class<?> tests, Method method) throws Exception {
        String name = tests.getSimpleName() + "." + method.getName();
        try {
            method.invoke(tests.getDeclaredConstructor().newInstance());
            System.out.println("ok      " + name);
            return 0;
        } catch (InvocationTargetException failure) {
            System.out.println("FAILED  " + name);
            failure.getCause().printStackTrace(System.out);
            return 1;
        }
    }

    private Tests() {}
}
