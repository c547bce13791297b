;; expect: ok
;; role: sampler
;; slots: 1
(func $is (param $bits i32) (if (i32.ne (local.get $bits) (i32.const 0x7fc00000)) (then unreachable)))
(func $are (param $bits v128)
  (if (i32.eqz (i32x4.all_true (i32x4.eq (local.get $bits) (v128.const i32x4 0x7fc00000 0x7fc00000 0x7fc00000 0x7fc00000)))) (then unreachable)))
(func (export "step") (param i32) (result i32)
  (local $odd f32) (local $odds v128) (local $zero f32)
  ;; a payload and a sign of its own: what arithmetic makes of it is the same on every machine
  (local.set $odd (f32.reinterpret_i32 (i32.const 0xffc12345)))
  (local.set $odds (v128.const i32x4 0xffc12345 0x7fa00001 0xff800001 0x7fffffff))
  (call $is (i32.reinterpret_f32 (f32.add (local.get $odd) (f32.const 1))))
  (call $is (i32.reinterpret_f32 (f32.mul (local.get $odd) (local.get $odd))))
  (call $is (i32.reinterpret_f32 (f32.div (local.get $zero) (local.get $zero))))
  (call $is (i32.reinterpret_f32 (f32.sqrt (f32.const -1))))
  (call $is (i32.reinterpret_f32 (f32.min (local.get $odd) (f32.const 1))))
  (call $is (i32.reinterpret_f32 (f32.nearest (local.get $odd))))
  (call $is (i32.reinterpret_f32 (f32.demote_f64 (f64.promote_f32 (local.get $odd)))))
  (call $are (f32x4.add (local.get $odds) (local.get $odds)))
  (call $are (f32x4.div (f32x4.splat (local.get $zero)) (f32x4.splat (local.get $zero))))
  (call $are (f32x4.max (local.get $odds) (f32x4.splat (f32.const 1))))
  (call $are (f32x4.sqrt (f32x4.splat (f32.const -1))))
  (call $are (f32x4.ceil (local.get $odds)))
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 6)) (i32.const 0))
